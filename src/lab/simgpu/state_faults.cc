// Injects faults into a simulated GPU server: Xids, GPU conditions, driver failures.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <ranges>

#include "base/text.h"
#include "base/try.h"
#include "gpu/nvml_abi.h"
#include "lab/simgpu/state_file.h"

namespace carma::simgpu {
namespace {

namespace nvml = gpu::nvml;

struct CodeName {
  nvml::Return code;
  std::string_view name;
  const char* text;
};
constexpr CodeName kCodeNames[] = {
    {nvml::kSuccess, "SUCCESS", "success"},
    {nvml::kUninitialized, "UNINITIALIZED", "the library is not initialised"},
    {nvml::kInvalidArgument, "INVALID_ARGUMENT", "invalid argument"},
    {nvml::kNotSupported, "NOT_SUPPORTED", "not supported by this GPU"},
    {nvml::kNoPermission, "NO_PERMISSION", "no permission"},
    {nvml::kNotFound, "NOT_FOUND", "not found"},
    {nvml::kInsufficientSize, "INSUFFICIENT_SIZE", "the buffer is too small"},
    {nvml::kDriverNotLoaded, "DRIVER_NOT_LOADED", "the driver is not loaded"},
    {nvml::kTimeout, "TIMEOUT", "timed out"},
    {nvml::kFunctionNotFound, "FUNCTION_NOT_FOUND", "the driver has no such function"},
    {nvml::kGpuIsLost, "GPU_IS_LOST", "GPU is lost"},
    {nvml::kResetRequired, "RESET_REQUIRED", "the GPU needs a reset"},
    {nvml::kLibRmVersionMismatch, "LIB_RM_VERSION_MISMATCH", "library and driver do not match"},
    {nvml::kMemory, "MEMORY", "not enough memory"},
    {nvml::kNoData, "NO_DATA", "no data"},
    {nvml::kInsufficientResources, "INSUFFICIENT_RESOURCES", "not enough resources"},
    {nvml::kArgumentVersionMismatch, "ARGUMENT_VERSION_MISMATCH", "unknown argument version"},
    {nvml::kUnknown, "UNKNOWN", "unknown error"},
};

}  // namespace

std::string FaultKinds() {
  return fmt::format("{}", fmt::join(kFaultKindWords | std::views::values, ", "));
}

Result<FaultKind> ParseFaultKind(std::string_view name) {
  if (const auto known = base::FromWord<FaultKind>(name)) return *known;
  return Invalid("unknown fault '{}', expected one of {}", base::Printable(name, 40), FaultKinds());
}

Result<std::int32_t> ParseNvmlCode(std::string_view text) {
  for (const CodeName& known : kCodeNames) {
    if (known.name == text) return known.code;
  }
  const auto number = base::ParseInt(text);
  if (number && *number > 0 && *number <= 999) return static_cast<std::int32_t>(*number);
  return Invalid(
      "unknown NVML error '{}', expected a name such as GPU_IS_LOST or TIMEOUT, or 1 to 999",
      base::Printable(text, 40));
}

const char* NvmlText(std::int32_t code) {
  for (const CodeName& known : kCodeNames) {
    if (known.code == code) return known.text;
  }
  return "unknown error";
}

Result<Unit> Server::AnnounceXid(int gpu, int xid) {
  if (gpu < 0 || gpu >= place_count()) return CheckGpu(gpu);
  const Lock lock = CARMA_TRY(TakeLock());
  Announce(mapping_->state->world, {gpu, xid});
  Changed();  // wakes processes waiting for events
  return Unit{};
}

Result<Server::Xids> Server::XidsFrom(std::uint64_t from) {
  const Lock lock = CARMA_TRY(TakeLock());
  const World& world = mapping_->state->world;
  Xids xids{world.xid_count, {}};
  const std::uint64_t oldest = world.xid_count > kMaxXids ? world.xid_count - kMaxXids : 0;
  for (std::uint64_t n = std::max(from, oldest); n < world.xid_count; ++n)
    xids.events.push_back(world.xids[n % kMaxXids]);
  return xids;
}

Result<Unit> Server::SetCondition(int gpu, const Condition& condition) {
  CARMA_TRY(CheckGpu(gpu));
  const Lock lock = CARMA_TRY(TakeLock());
  mapping_->state->world.gpus[gpu].condition = condition;
  return Unit{};
}

Result<Unit> Server::ResetGpu(int gpu) {
  CARMA_TRY(CheckGpu(gpu));
  {
    const Lock lock = CARMA_TRY(TakeLock());
    Gpu& broken = mapping_->state->world.gpus[gpu];
    if (broken.residents > 0)
      return Conflict("GPU {} cannot be reset while other processes are using it", gpu);
    ResetCondition(broken.condition);
  }
  return ClearFaults(gpu);
}

Result<Unit> Server::SetFault(const Fault& fault) {
  if (fault.gpu < kWholeDriver || fault.gpu >= gpu_count() || fault.kind == FaultKind::kNone)
    return Invalid("fault: expected a kind and a GPU from 0 to {}", gpu_count() - 1);
  if (fault.function.size() >= sizeof(FaultEntry::function))
    return Invalid("fault: the function name is too long");
  const Lock lock = CARMA_TRY(TakeLock());
  StateFile& state = *mapping_->state;
  // A kStale fault stores the frozen readings of a single GPU or instance. If the whole driver is
  // stale, each GPU and instance therefore gets its own fault.
  const bool spread = fault.gpu == kWholeDriver && fault.kind == FaultKind::kStale;
  const std::int32_t first = spread ? 0 : fault.gpu;
  const std::int32_t last = fault.kind == FaultKind::kStale ? place_count() - 1 : fault.gpu;
  for (std::int32_t gpu = first; gpu <= last; ++gpu) {
    if (!spread && gpu != fault.gpu && WholeGpu(gpu) != fault.gpu) continue;
    FaultEntry* entry = std::find_if(std::begin(state.faults), std::end(state.faults),
                                     [](const FaultEntry& e) { return e.kind == 0; });
    if (entry == std::end(state.faults))
      return Unavailable("fault: too many faults are already set");
    *entry = {};
    entry->gpu = gpu;
    entry->code = fault.code;
    std::memcpy(entry->function, fault.function.data(), fault.function.size());
    if (gpu >= 0) entry->frozen = ReadingsOf(state.world, gpu);
    entry->kind = static_cast<std::uint32_t>(fault.kind);
    state.fault_count.fetch_add(1);
  }
  return Unit{};
}

Result<Unit> Server::ClearFaults(std::optional<std::int32_t> gpu) {
  const Lock lock = CARMA_TRY(TakeLock());
  StateFile& state = *mapping_->state;
  std::uint32_t left = 0;
  for (FaultEntry& entry : state.faults) {
    const bool of_it = !gpu || entry.gpu == *gpu || (entry.gpu >= 0 && WholeGpu(entry.gpu) == *gpu);
    if (of_it) entry.kind = 0;
    left += entry.kind != 0 ? 1 : 0;
  }
  state.fault_count = left;
  return Unit{};
}

Result<std::vector<Fault>> Server::Faults() {
  std::vector<Fault> faults;
  if (mapping_->state->fault_count.load(std::memory_order_relaxed) == 0) return faults;
  const Lock lock = CARMA_TRY(TakeLock());
  for (const FaultEntry& entry : mapping_->state->faults) {
    if (entry.kind == 0 || entry.gpu >= gpu_count()) continue;
    faults.push_back(
        {static_cast<FaultKind>(entry.kind), entry.gpu, entry.code, Text(entry.function)});
  }
  return faults;
}

Result<Fault> Server::FaultOn(std::int32_t gpu, const char* function) {
  CARMA_TRY(CheckFile());
  const std::vector<Fault> faults = CARMA_TRY(Faults());
  Fault worst;
  // A missing driver hides all other faults. A hanging driver hides all faults except a missing
  // driver. Wrong readings have the lowest priority.
  static constexpr std::array kWorstFirst{FaultKind::kVanish, FaultKind::kHang, FaultKind::kLost,
                                          FaultKind::kError};
  const auto rank = [](FaultKind kind) {
    const auto place = std::ranges::find(kWorstFirst, kind) - kWorstFirst.begin();
    return kind == FaultKind::kNone ? place + 1 : place;
  };
  for (const Fault& fault : faults) {
    if (fault.gpu != kWholeDriver && fault.gpu != gpu) continue;
    if (!fault.function.empty() && fault.function != function) continue;
    if (rank(fault.kind) < rank(worst.kind)) worst = fault;
  }
  return worst;
}

}  // namespace carma::simgpu
