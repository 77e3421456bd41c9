// The GPUs that workloads are measured on.
#include "lab/verbs/profile/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace carma::cli {

Result<std::vector<Lane>> LanesOf(std::span<const gpu::DeviceInfo> devices,
                                  std::span<const std::size_t> chosen) {
  std::vector<std::size_t> numbers(chosen.begin(), chosen.end());
  if (chosen.empty()) {
    numbers.resize(devices.size());
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  }
  std::vector<Lane> lanes;
  for (const std::size_t i : numbers) {
    if (i >= devices.size()) return Fail(ErrorCode::kNotFound, fmt::format("no GPU {}", i));
    const gpu::DeviceInfo& info = devices[i];
    if (!info.trouble.empty()) {
      if (chosen.empty()) continue;
      return Fail(ErrorCode::kNotFound, fmt::format("GPU {}: {}", i, info.trouble.text));
    }
    const std::string type = base::Printable(info.name, 100);
    const std::string board = info.mig ? info.mig->parent_uuid : info.uuid;
    const auto same = std::ranges::find_if(lanes, [&](const Lane& lane) {
      return lane.mig && lane.board == board && lane.gpu_type == type;
    });
    if (same == lanes.end()) {
      lanes.push_back({type, board, {i}, {info.uuid}, info.mig.has_value()});
    } else {
      same->devices.push_back(i);
      same->uuids.push_back(info.uuid);
    }
  }
  if (lanes.empty()) return Fail(ErrorCode::kNotFound, "there is no GPU to measure");
  return lanes;
}

std::vector<ProfiledType> TypesOf(std::span<const Lane> lanes) {
  std::vector<ProfiledType> types;
  for (const Lane& lane : lanes) {
    const int instances = lane.mig ? static_cast<int>(lane.devices.size()) : 0;
    const auto same = std::ranges::find(types, lane.gpu_type, &ProfiledType::name);
    if (same == types.end()) {
      types.push_back({lane.gpu_type, instances});
    } else {
      same->instances = std::max(same->instances, instances);
    }
  }
  return types;
}

}  // namespace carma::cli
