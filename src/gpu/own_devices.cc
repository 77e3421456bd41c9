#include "gpu/own_devices.h"

#include <cstdint>
#include <utility>

#include "base/text.h"

namespace carma::gpu {

std::vector<std::size_t> NumbersOfWhole(const std::vector<DeviceInfo>& devices) {
  std::vector<std::size_t> numbers(devices.size(), 0);
  for (std::size_t i = 1; i < devices.size(); ++i) {
    const std::optional<MigPlace>& before = devices[i - 1].mig;
    const std::optional<MigPlace>& now = devices[i].mig;
    const bool same = before && now && before->parent_uuid == now->parent_uuid;
    numbers[i] = numbers[i - 1] + (same ? 0 : 1);
  }
  return numbers;
}

OwnDevices OnlyNamed(std::vector<DeviceInfo> devices, std::span<const std::string> names) {
  const std::vector<std::size_t> numbers = NumbersOfWhole(devices);
  std::vector<bool> own(devices.size(), names.empty());
  OwnDevices result;
  for (const std::string& name : names) {
    const std::optional<std::int64_t> number = base::ParseInt(name);
    bool found = false;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (number ? std::cmp_not_equal(numbers[i], *number) : !devices[i].uuid.starts_with(name))
        continue;
      own[i] = found = true;
    }
    if (!found) result.unknown.push_back(name);
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!own[i]) continue;
    result.devices.push_back(std::move(devices[i]));
    result.indices.push_back(i);
  }
  return result;
}

}  // namespace carma::gpu
