#include "gpu/own_devices.h"

#include <cstdint>
#include <utility>

#include "base/text.h"

namespace carma::gpu {
namespace {

// For each listed device, the number of its whole GPU (the parent GPU for a MIG instance).
std::vector<std::int64_t> NumbersOfWhole(const std::vector<DeviceInfo>& devices) {
  std::vector<std::int64_t> numbers;
  for (const DeviceInfo& device : devices) {
    const bool first = numbers.empty();
    const DeviceInfo* before = first ? nullptr : &devices[numbers.size() - 1];
    const bool same =
        !first && device.mig && before->mig && device.mig->parent_uuid == before->mig->parent_uuid;
    numbers.push_back(first ? 0 : numbers.back() + (same ? 0 : 1));
  }
  return numbers;
}

}  // namespace

OwnDevices OnlyNamed(std::vector<DeviceInfo> devices, std::span<const std::string> names) {
  const std::vector<std::int64_t> numbers = NumbersOfWhole(devices);
  std::vector<bool> own(devices.size(), false);
  OwnDevices result;
  for (const std::string& name : names) {
    const std::optional<std::int64_t> number = base::ParseInt(name);
    bool found = false;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (number ? numbers[i] != *number : !devices[i].uuid.starts_with(name)) continue;
      own[i] = found = true;
    }
    if (!found) result.unknown.push_back(name);
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (own[i]) result.devices.push_back(std::move(devices[i]));
  }
  return result;
}

}  // namespace carma::gpu
