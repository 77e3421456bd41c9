// MIG calls: the handles of a GPU's instances, and an instance's properties.
#include "lab/simgpu/driver/call.h"

using namespace carma;
using namespace carma::simgpu;
using namespace carma::simgpu::driver;

NVML_EXPORT Return nvmlDeviceGetMaxMigDeviceCount(Device device, std::uint32_t* count) {
  const Call call = Enter(device, count != nullptr);
  if (call.code == kSuccess) *count = call.Identity().mig ? kMaxInstances : 0;
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, std::uint32_t index,
                                                       Device* instance) {
  const Call call = Enter(device, instance && index < kMaxInstances);
  if (call.code != kSuccess) return call.code;
  const std::optional<int> place = FindInstance(call, index + 1);
  if (!place) return kNotFound;
  *instance = HandleOf(*place);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetGpuInstanceId(Device instance, std::uint32_t* id) {
  const Call call = Enter(instance, id != nullptr, Takes::kInstances);
  if (call.code == kSuccess) *id = InstanceNumber(*call.server, call.gpu);
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetComputeInstanceId(Device instance, std::uint32_t* id) {
  const Call call = Enter(instance, id != nullptr, Takes::kInstances);
  if (call.code == kSuccess) *id = kOnlyComputeInstance;
  return call.code;
}

NVML_EXPORT Return nvmlDeviceGetAttributes_v2(Device instance, DeviceAttributes* attributes) {
  const Call call = Enter(instance, attributes != nullptr, Takes::kInstances);
  if (call.code != kSuccess) return call.code;
  const GpuIdentity& identity = call.Identity();
  *attributes = {};
  attributes->multiprocessors = static_cast<std::uint32_t>(identity.sms);
  attributes->gpu_slices = static_cast<std::uint32_t>(identity.slices.compute);
  attributes->compute_slices = attributes->gpu_slices;
  attributes->memory_mib = static_cast<std::uint64_t>(identity.total_mib);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetGpuInstanceById(Device device, std::uint32_t id,
                                                GpuInstance* instance) {
  const Call call = Enter(device, instance != nullptr);
  if (call.code != kSuccess) return call.code;
  const std::optional<int> place = FindInstance(call, id);
  if (!place) return kNotFound;
  *instance = reinterpret_cast<GpuInstance>(HandleOf(*place));
  return kSuccess;
}

NVML_EXPORT Return nvmlGpuInstanceGetInfo(GpuInstance instance, GpuInstanceInfo* info) {
  const Call call = Enter(reinterpret_cast<Device>(instance), info != nullptr, Takes::kInstances);
  if (call.code != kSuccess) return call.code;
  const GpuIdentity& identity = call.Identity();
  *info = {HandleOf(call.Whole()), static_cast<std::uint32_t>(identity.gpu_instance),
           static_cast<std::uint32_t>(identity.slices.profile), 0,
           static_cast<std::uint32_t>(identity.slices.memory)};
  return kSuccess;
}
