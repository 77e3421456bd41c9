#include "gpu/same_gpus.h"

#include <algorithm>
#include <string>

#include "gpu/own_devices.h"

namespace carma::gpu {
namespace {

const std::string& UuidOf(GpuEntries gpu) {
  const DeviceInfo& first = gpu.front();
  return first.mig ? first.mig->parent_uuid : first.uuid;
}

bool IsUnknown(GpuEntries gpu) {
  return !gpu.front().mig && IsUnidentified(gpu.front());
}

}  // namespace

std::vector<GpuEntries> EntriesByGpu(const std::vector<DeviceInfo>& devices) {
  std::vector<GpuEntries> gpus;
  const std::vector<std::size_t> numbers = NumbersOfWhole(devices);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (numbers[i] == gpus.size()) gpus.emplace_back(&devices[i], 0);
    gpus.back() = {gpus.back().data(), gpus.back().size() + 1};
  }
  return gpus;
}

std::vector<GpuEntries> SameGpus(const std::vector<DeviceInfo>& devices,
                                 const std::vector<DeviceInfo>& others) {
  const std::vector<GpuEntries> gpus = EntriesByGpu(devices), candidates = EntriesByGpu(others);
  const bool same_numbers =
      std::ranges::equal(gpus, candidates, [](GpuEntries one, GpuEntries other) {
        return IsUnknown(one) || IsUnknown(other) || UuidOf(one) == UuidOf(other);
      });
  std::vector<GpuEntries> same;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const GpuEntries gpu = gpus[i];
    auto found = std::ranges::find(candidates, UuidOf(gpu), UuidOf);
    if (found == candidates.end()) {
      found = std::ranges::find_if(candidates, [&](GpuEntries each) {
        const std::string& pci = each.front().pci;
        return (IsUnknown(gpu) || IsUnknown(each)) && !pci.empty() && pci == gpu.front().pci;
      });
    }
    if (found == candidates.end() && same_numbers)
      found = candidates.begin() + static_cast<std::ptrdiff_t>(i);
    same.push_back(found == candidates.end() ? GpuEntries() : *found);
  }
  return same;
}

bool IsUnidentified(const DeviceInfo& device) {
  return device.uuid.starts_with(kUnknownGpu) || device.uuid.starts_with(kUnknownInstance);
}

bool IsDescribed(const DeviceInfo& device) {
  return device.trouble.empty() || device.trouble.cause == TroubleCause::kNoInstance ||
         device.trouble.cause == TroubleCause::kSharedMemory;
}

bool StandsForOthers(const DeviceInfo& device) {
  return !IsDescribed(device) && (!device.mig || IsUnidentified(device));
}

const DeviceInfo* EntryFor(const DeviceInfo& device, GpuEntries entries) {
  auto found = std::ranges::find(entries, device.uuid, &DeviceInfo::uuid);
  if (found == entries.end()) found = std::ranges::find_if(entries, StandsForOthers);
  if (found != entries.end()) return &*found;
  return !entries.empty() && IsUnknown({&device, 1}) ? &entries.front() : nullptr;
}

}  // namespace carma::gpu
