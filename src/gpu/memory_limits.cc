#include "gpu/memory_limits.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/text.h"
#include "base/try.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

constexpr std::int64_t kMostMib = std::int64_t{1} << 40;

std::uint64_t ToBytes(std::int64_t mib) {
  return static_cast<std::uint64_t>(mib) << 20;
}

// Converts a driver return code to an error.
Result<Unit> Judge(const NvmlApi& api, nvml::Return code, const std::string& doing) {
  if (code == nvml::kSuccess) return Unit{};
  const ErrorCode error = code == nvml::kNoPermission ? ErrorCode::kDenied
                          : code == nvml::kNotFound   ? ErrorCode::kNotFound
                                                      : ErrorCode::kUnavailable;
  return Fail(error, "{}: {}", doing, NvmlText(api, code));
}

Result<nvml::Device> FindGpu(const NvmlApi& api, const std::string& uuid) {
  if (api.by_uuid == nullptr) return Unavailable("the driver cannot find GPUs by UUID");
  nvml::Device device = nullptr;
  CARMA_TRY(Judge(api, api.by_uuid(uuid.c_str(), &device), uuid));
  return device;
}

Result<Unit> SetOne(const NvmlApi& api, const std::string& group, const MemoryLimit& limit) {
  const nvml::Device device = CARMA_TRY(FindGpu(api, limit.uuid));
  nvml::SetMemoryLimits request{group.c_str(), ToBytes(limit.soft_mib),
                                limit.hard_mib ? ToBytes(*limit.hard_mib) : nvml::kNoMemoryLimit};
  return Judge(api, api.set_memory_limits(device, &request),
               fmt::format("setting the memory limit on {} for {}", limit.uuid, group));
}

// Empty if `words` is not a list of limits.
std::optional<std::vector<MemoryLimit>> ParseLimits(std::span<const std::string> words) {
  std::vector<MemoryLimit> limits;
  for (; words.size() >= 3; words = words.subspan(3)) {
    const std::optional<std::int64_t> soft = base::ParseInt(words[1]);
    const std::optional<std::int64_t> hard = base::ParseInt(words[2]);
    if (!soft || !hard || *soft < 0 || *hard < 0 || *soft > kMostMib || *hard > kMostMib)
      return std::nullopt;
    limits.push_back({words[0], *soft, *hard > 0 ? hard : std::nullopt});
  }
  if (!words.empty()) return std::nullopt;
  return limits;
}

}  // namespace

Result<Unit> SetMemoryLimits(const NvmlApi& api, const std::string& group,
                             std::span<const MemoryLimit> limits) {
  if (api.set_memory_limits == nullptr)
    return Unavailable(
        "this driver does not support memory limits (branch 615 or newer is required)");
  const NvmlSession session(api);
  if (!session.open()) return Unavailable("the driver does not respond");
  for (const MemoryLimit& limit : limits) CARMA_TRY(SetOne(api, group, limit));
  return Unit{};
}

std::optional<GroupMemory> ReadGroupMemory(const NvmlApi& api, nvml::Device device,
                                           const std::string& group) {
  nvml::GetMemoryLimits answer{group.c_str(), 0, nvml::kNoMemoryLimit, 0};
  if (api.memory_limits == nullptr || api.memory_limits(device, &answer) != nvml::kSuccess)
    return std::nullopt;
  GroupMemory memory;
  memory.soft_mib = WholeMib(Bytes(answer.soft_limit)).value();
  if (answer.hard_limit != nvml::kNoMemoryLimit)
    memory.hard_mib = WholeMib(Bytes(answer.hard_limit)).value();
  memory.used_mib = StartedMib(Bytes(answer.current_used)).value();
  return memory;
}

int SetMemoryLimitsFromWords(std::span<const std::string> words) {
  const auto limits = words.size() < 2 ? std::nullopt : ParseLimits(words.subspan(2));
  if (!limits) {
    std::fputs("usage: carma-reader memory-limits LIBRARY GROUP [UUID SOFT_MIB HARD_MIB]...\n",
               stderr);
    return 2;
  }
  const Result<NvmlLibrary> library = LoadNvml(words[0]);
  const Result<Unit> set =
      library ? SetMemoryLimits(library->api, words[1], *limits) : std::unexpected(library.error());
  if (set) return 0;
  std::fprintf(stderr, "%s\n", set.error().message.c_str());
  return 1;
}

}  // namespace carma::gpu
