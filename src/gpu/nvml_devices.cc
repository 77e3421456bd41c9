#include "gpu/nvml_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "gpu/sanity.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

constexpr std::uint32_t kMaxDevices = 1024;
constexpr std::uint32_t kMaxInstances = 64;

// Drivers before R510 include `reserved` in the used memory.
template <class Memory>
ReadResult<Unit> TakeMemory(NvmlCalls& calls, nvml::Return code, const Memory& memory,
                            std::uint64_t reserved, const std::string& gpu, Reading& reading) {
  if (code != nvml::kSuccess) return calls.FailureOf(gpu, code, "memory");
  if (memory.total == 0 || memory.total == nvml::kNoValue64 || memory.used == nvml::kNoValue64)
    return FailRead(ErrorCode::kCorrupt, "its memory is not reported", gpu);
  reading.total_mib = WholeMib(Bytes(memory.total)).value();
  reading.reserved_mib = StartedMib(Bytes(reserved)).value();
  reading.used_mib = StartedMib(Bytes(memory.used)).value();
  return Unit{};
}

// What is known about a GPU while it is being described.
struct Board {
  std::uint32_t index = 0;
  nvml::Device handle = nullptr;
  std::string uuid;
  std::string name;
  std::string pci;
  std::string Where() const { return uuid.empty() ? std::to_string(index) : uuid; }
};

template <std::size_t kBytes>
std::string Text(const char (&text)[kBytes]) {
  return {text, strnlen(text, kBytes)};
}

ReadResult<std::string> AskUuid(NvmlCalls& calls, nvml::Device handle, const std::string& gpu) {
  char text[nvml::kUuidBytes] = {};
  const nvml::Return code = calls.api.uuid(handle, text, sizeof text);
  if (code != nvml::kSuccess) return calls.FailureOf(gpu, code, "UUID");
  std::string uuid = Text(text);
  if (uuid.empty()) return FailRead(ErrorCode::kCorrupt, "no UUID", gpu);
  return uuid;
}

// Fills in `board`. If a call fails, `board` keeps the facts that were already read.
ReadResult<Unit> DescribeBoard(NvmlCalls& calls, Board& board) {
  const NvmlApi& api = calls.api;
  const nvml::Return code = api.by_index(board.index, &board.handle);
  if (code != nvml::kSuccess) {
    board.handle = nullptr;
    return calls.FailureOf(board.Where(), code);
  }
  nvml::PciInfo pci{};
  if (api.pci && api.pci(board.handle, &pci) == nvml::kSuccess) board.pci = Text(pci.bus_id);
  board.uuid = CARMA_TRY(AskUuid(calls, board.handle, board.Where()));
  char name[nvml::kNameBytes] = {};
  if (api.name && api.name(board.handle, name, sizeof name) == nvml::kSuccess)
    board.name = Text(name);
  return Unit{};
}

// Why a board and all its instances are unusable.
struct Refusal {
  ReadError error;
  TroubleCause cause = TroubleCause::kOther;
  // Implicit, so that a call's error converts without a cast.
  Refusal(ReadError why, TroubleCause of = TroubleCause::kOther)
      : error(std::move(why)), cause(of) {}
};
using Listed = std::expected<std::vector<NvmlDevice>, Refusal>;

NvmlDevice OnBoard(const Board& board) {
  NvmlDevice device;
  device.number = board.index;
  device.board = board.handle;
  device.info.uuid = board.uuid;
  device.info.name = board.name;
  device.info.pci = board.pci;
  return device;
}

NvmlDevice Troubled(const Board& board, const Refusal& refusal) {
  NvmlDevice device = OnBoard(board);
  device.leads = false;
  if (board.uuid.empty()) device.info.uuid = fmt::format("{}{}", kUnknownGpu, board.index);
  device.info.trouble = {refusal.error.message, refusal.cause, refusal.error.gpu};
  return device;
}

ReadResult<Unit> DescribeMemory(NvmlCalls& calls, NvmlDevice& device) {
  Reading reading;
  CARMA_TRY(ReadNvmlMemory(calls, device.handle, device.info.uuid, reading));
  CARMA_TRY(Sanity().Check(device.info.uuid, reading));
  device.info.total_mib = reading.total_mib;
  device.info.reserved_mib = reading.reserved_mib;
  return Unit{};
}

// Failures are not reported, because links matter only to tasks that request connected GPUs.
NvmlLinks AskLinks(const NvmlApi& api, nvml::Device handle) {
  NvmlLinks links;
  if (!api.link_state) return links;
  for (std::uint32_t link = 0; link < nvml::kMostLinks; ++link) {
    std::uint32_t active = 0;
    // The driver returns "invalid argument" for numbers beyond the last link.
    if (api.link_state(handle, link, &active) != nvml::kSuccess) break;
    if (active != 1) continue;
    std::uint32_t other = 0;
    if (api.link_type && api.link_type(handle, link, &other) == nvml::kSuccess &&
        other == nvml::kLinkToSwitch) {
      links.to_switch = true;
      continue;
    }
    nvml::PciInfo pci{};
    if (!api.link_pci || api.link_pci(handle, link, &pci) != nvml::kSuccess) continue;
    std::string address = base::ToLower(Text(pci.bus_id));
    if (!address.empty() && std::ranges::find(links.pcis, address) == links.pcis.end())
      links.pcis.push_back(std::move(address));
  }
  return links;
}

void Connect(std::vector<NvmlDevice>& devices) {
  for (NvmlDevice& one : devices) {
    for (const NvmlDevice& other : devices) {
      if (&one == &other || one.info.mig || other.info.mig) continue;
      if (one.info.trouble.empty() != other.info.trouble.empty()) continue;
      const std::string address = base::ToLower(other.info.pci);
      const bool direct =
          !address.empty() && std::ranges::find(one.links.pcis, address) != one.links.pcis.end();
      if (direct || (one.links.to_switch && other.links.to_switch))
        one.info.linked_to.push_back(other.info.uuid);
    }
  }
}

ReadResult<NvmlDevice> DescribeWhole(NvmlCalls& calls, const Board& board) {
  NvmlDevice device = OnBoard(board);
  device.handle = board.handle;
  CARMA_TRY(DescribeMemory(calls, device));
  device.links = AskLinks(calls.api, board.handle);
  return device;
}

// Returns -1 if the profile is unknown. Only privileged accounts can read profiles.
int AskProfile(const NvmlApi& api, const Board& board, std::uint32_t gpu_instance) {
  if (!api.gpu_instance || !api.gpu_instance_info) return -1;
  nvml::GpuInstance instance = nullptr;
  if (api.gpu_instance(board.handle, gpu_instance, &instance) != nvml::kSuccess) return -1;
  nvml::GpuInstanceInfo info{};
  if (api.gpu_instance_info(instance, &info) != nvml::kSuccess) return -1;
  return info.profile_id <= 1'000'000 ? static_cast<int>(info.profile_id) : -1;
}

ReadResult<int> AskNumber(NvmlCalls& calls, nvml::GetInstanceIdFn* function,
                          const NvmlDevice& device, const char* what) {
  std::uint32_t number = 0;
  const nvml::Return code = function(device.handle, &number);
  if (code != nvml::kSuccess)
    return calls.FailureOf(device.info.uuid, code, fmt::format("{} number", what));
  if (number > 1'000'000) {
    return FailRead(ErrorCode::kCorrupt, fmt::format("implausible {} number", what),
                    device.info.uuid);
  }
  return static_cast<int>(number);
}

ReadResult<Unit> DescribeInstance(NvmlCalls& calls, const Board& board, std::int64_t board_mib,
                                  NvmlDevice& device) {
  device.info.uuid = CARMA_TRY(AskUuid(calls, device.handle, device.info.uuid));
  const int gpu_instance =
      CARMA_TRY(AskNumber(calls, calls.api.gpu_instance_id, device, "GPU instance"));
  const int compute_instance =
      CARMA_TRY(AskNumber(calls, calls.api.compute_instance_id, device, "compute instance"));
  MigPlace& place = *device.info.mig;
  place.gpu_instance = gpu_instance;
  place.compute_instance = compute_instance;
  place.profile = AskProfile(calls.api, board, device.GpuInstance());
  nvml::DeviceAttributes attributes{};
  if (calls.api.attributes && calls.api.attributes(device.handle, &attributes) == nvml::kSuccess)
    place.profile_name = MigProfileName(attributes, board_mib);
  if (!place.profile_name.empty()) device.info.name += " " + place.profile_name;
  return DescribeMemory(calls, device);
}

// The compute instances of one GPU instance share its memory, which must not be promised twice.
void RefuseShared(std::vector<NvmlDevice>& instances) {
  for (std::size_t i = 0; i < instances.size(); ++i) {
    for (std::size_t k = 0; k < i && instances[i].info.trouble.empty(); ++k) {
      const NvmlDevice& other = instances[k];
      if (!other.info.trouble.empty() || other.GpuInstance() != instances[i].GpuInstance())
        continue;
      instances[i].info.trouble = {
          fmt::format("it shares its memory with {}: only the first compute instance "
                      "of a GPU instance is used",
                      other.info.uuid),
          TroubleCause::kSharedMemory};
      instances[i].info.total_mib = instances[i].info.reserved_mib = 0;
    }
  }
}

NvmlDevice BlankInstance(const Board& board, std::uint32_t number) {
  NvmlDevice device = OnBoard(board);
  device.info.uuid = fmt::format("{}{}-{}", kUnknownInstance, board.index, number);
  device.info.name += " MIG";
  device.info.mig = MigPlace{.parent_uuid = board.uuid, .profile_name = ""};
  return device;
}

// Instance indices have gaps. Instances that cannot be opened are listed together as one device,
// because their number is unknown. Fails if no instance could be opened.
ReadResult<std::vector<NvmlDevice>> AskInstances(NvmlCalls& calls, const Board& board,
                                                 std::uint32_t count) {
  Reading whole;
  (void)ReadNvmlMemory(calls, board.handle, board.uuid, whole);
  std::vector<NvmlDevice> instances;
  std::optional<ReadError> refused;
  for (std::uint32_t i = 0; i < std::min(count, kMaxInstances); ++i) {
    NvmlDevice device = BlankInstance(board, i);
    device.info.mig->slices = static_cast<int>(std::min(count, kMaxInstances));
    const nvml::Return code = calls.api.mig_handle(board.handle, i, &device.handle);
    if (code == nvml::kNotFound || code == nvml::kInvalidArgument) continue;  // no such instance
    ReadResult<Unit> step;
    if (code != nvml::kSuccess) {
      step = calls.FailureOf(device.info.uuid, code);
      if (std::exchange(refused, step.error())) continue;
    } else {
      step = DescribeInstance(calls, board, whole.total_mib, device);
    }
    if (!step) device.info.trouble = {step.error().message, TroubleCause::kOther, step.error().gpu};
    if (!step && calls.driver_gone()) return std::unexpected(step.error());
    instances.push_back(std::move(device));
  }
  if (refused && instances.size() == 1) return std::unexpected(*refused);
  return instances;
}

Listed ListInstances(NvmlCalls& calls, const Board& board) {
  if (!calls.api.HasInstances()) {
    return FailRead(ErrorCode::kUnavailable,
                    "MIG is on but the driver's library cannot list its instances", board.uuid);
  }
  std::uint32_t count = 0;
  const nvml::Return code = calls.api.mig_count(board.handle, &count);
  if (code != nvml::kSuccess)
    return calls.FailureOf(board.uuid, code, "MIG is on but its instances cannot be listed");
  std::vector<NvmlDevice> instances = CARMA_TRY(AskInstances(calls, board, count));
  if (instances.empty()) {
    return std::unexpected(Refusal(
        ReadError(ErrorCode::kUnavailable, "MIG is on but there are no instances", board.uuid),
        TroubleCause::kNoInstance));
  }
  RefuseShared(instances);
  bool led = false;
  for (NvmlDevice& device : instances) {
    device.leads = !led && device.info.trouble.empty();
    led |= device.leads;
  }
  return instances;
}

Listed DevicesOf(NvmlCalls& calls, Board& board) {
  CARMA_TRY(DescribeBoard(calls, board));
  const std::optional<bool> divided = CARMA_TRY(AskMig(calls, board.handle, board.uuid));
  if (divided == true) {
    Listed instances = ListInstances(calls, board);
    if (!instances && instances.error().cause == TroubleCause::kOther)
      instances.error().cause = TroubleCause::kHiddenInstances;
    return instances;
  }
  NvmlDevice whole = CARMA_TRY(DescribeWhole(calls, board));
  return std::vector<NvmlDevice>{std::move(whole)};
}

struct Group {
  std::string pci;  // the board's address or, if unknown, the previous board's
  std::vector<NvmlDevice> devices;
};

}  // namespace

std::string MigProfileName(const nvml::DeviceAttributes& attributes, std::int64_t board_mib) {
  if (attributes.gpu_slices == 0 || attributes.memory_mib == 0) return "";
  constexpr double kMibPerGib = 1'024;
  const auto mib = static_cast<double>(attributes.memory_mib);
  const auto board = static_cast<double>(board_mib);
  const double gib =
      board_mib > 0 ? std::round(std::ceil(mib / board * 8) / 8 * std::ceil(board / kMibPerGib))
                    : std::ceil(mib / kMibPerGib);
  std::string name = fmt::format("{}g.{}gb", attributes.gpu_slices, static_cast<std::int64_t>(gib));
  if (attributes.compute_slices == 0 || attributes.compute_slices >= attributes.gpu_slices)
    return name;
  return fmt::format("{}c.{}", attributes.compute_slices, name);
}

ReadResult<std::optional<bool>> AskMig(NvmlCalls& calls, nvml::Device board,
                                       const std::string& uuid) {
  if (!calls.api.mig_mode) return std::nullopt;
  std::uint32_t current = 0, pending = 0;
  const bool given = CARMA_TRY(
      calls.Given(uuid, calls.api.mig_mode(board, &current, &pending), "MIG mode", Weight::kTells));
  return given && current <= 1 ? std::optional(current == 1) : std::nullopt;
}

ReadResult<Unit> ReadNvmlMemory(NvmlCalls& calls, nvml::Device handle, const std::string& gpu,
                                Reading& reading) {
  nvml::MemoryV2 memory{};
  memory.version = nvml::StructVersion<nvml::MemoryV2>(2);
  nvml::Return code = nvml::kFunctionNotFound;
  if (calls.api.memory_v2) code = calls.api.memory_v2(handle, &memory);
  if (!MeansAbsent(code) || !calls.api.memory)
    return TakeMemory(calls, code, memory, memory.reserved, gpu, reading);
  nvml::Memory older{};
  code = calls.api.memory(handle, &older);
  return TakeMemory(calls, code, older, 0, gpu, reading);
}

ReadResult<std::vector<NvmlDevice>> ListNvmlDevices(NvmlCalls& calls, const NvmlListing& listing) {
  std::uint32_t count = 0;
  if (const nvml::Return code = calls.api.count(&count); code != nvml::kSuccess)
    return calls.Failure(code, "counting GPUs");
  if (count > kMaxDevices) {
    return Fail(ErrorCode::kCorrupt, "NVML reports {} GPUs, expected at most {}", count,
                kMaxDevices);
  }
  std::vector<Group> groups;
  std::optional<ReadError> first_error;
  bool any = false;
  for (std::uint32_t index = 0; index < count; ++index) {
    Board board;
    board.index = index;
    const std::string before = groups.empty() ? "" : groups.back().pci;
    if (listing.leave_out.contains(index)) {
      const Refusal left_out(
          ReadError(ErrorCode::kUnavailable, "it is currently excluded from queries"));
      groups.push_back({before, {Troubled(board, left_out)}});
      continue;
    }
    if (listing.asking) listing.asking(index);
    Listed devices = DevicesOf(calls, board);
    if (!devices) {
      if (calls.driver_gone()) return std::unexpected(devices.error().error);
      if (!first_error) first_error = devices.error().error;
      devices = std::vector<NvmlDevice>{Troubled(board, devices.error())};
    }
    for (const NvmlDevice& device : *devices) any |= device.info.trouble.empty();
    groups.push_back({board.pci.empty() ? before : board.pci, std::move(*devices)});
  }
  if (!any && first_error) return std::unexpected(*first_error);
  // CARMA documents that GPUs are in PCI order. Every known driver already lists them that way.
  std::ranges::stable_sort(groups, [](const Group& a, const Group& b) { return a.pci < b.pci; });
  std::vector<NvmlDevice> all;
  for (Group& group : groups) std::ranges::move(group.devices, std::back_inserter(all));
  Connect(all);
  return all;
}

Result<Unit> FindNvmlDevicesAgain(NvmlCalls& calls, std::span<NvmlDevice* const> devices) {
  if (!devices.empty() && !calls.api.by_uuid)
    return Unavailable("NVML was reloaded; GPUs must be listed again");
  std::optional<base::Error> first_error;
  bool any = devices.empty();
  for (NvmlDevice* device : devices) {
    device->handle = device->board = nullptr;
    if (!device->info.trouble.empty()) continue;
    const std::string& board_uuid =
        device->info.mig ? device->info.mig->parent_uuid : device->info.uuid;
    nvml::Return code = calls.api.by_uuid(board_uuid.c_str(), &device->board);
    device->handle = device->board;
    if (code == nvml::kSuccess && device->info.mig)
      code = calls.api.by_uuid(device->info.uuid.c_str(), &device->handle);
    if (code == nvml::kSuccess) {
      any = true;
      continue;
    }
    device->handle = device->board = nullptr;
    const auto failure =
        calls.Failure(code, fmt::format("finding GPU {} again", device->info.uuid));
    if (calls.driver_gone()) return failure;
    if (!first_error) first_error = failure.error();
  }
  if (!any && first_error) return std::unexpected(*first_error);
  return Unit{};
}

}  // namespace carma::gpu
