#include "gpu/nvml_library.h"

#include <dlfcn.h>

#include <utility>

namespace carma::gpu {
namespace {

template <class Fn>
void Resolve(void* library, const char* name, Fn*& target) {
  target = reinterpret_cast<Fn*>(::dlsym(library, name));
}

NvmlApi ResolveAll(void* library) {
  NvmlApi api;
  Resolve(library, "nvmlInit_v2", api.init);
  Resolve(library, "nvmlShutdown", api.shutdown);
  Resolve(library, "nvmlErrorString", api.error_string);
  Resolve(library, "nvmlSystemGetDriverVersion", api.driver_version);
  Resolve(library, "nvmlSystemGetNVMLVersion", api.nvml_version);
  Resolve(library, "nvmlSystemGetCudaDriverVersion_v2", api.cuda_version);
  Resolve(library, "nvmlDeviceGetCount_v2", api.count);
  Resolve(library, "nvmlDeviceGetHandleByIndex_v2", api.by_index);
  Resolve(library, "nvmlDeviceGetHandleByUUID", api.by_uuid);
  Resolve(library, "nvmlDeviceGetUUID", api.uuid);
  Resolve(library, "nvmlDeviceGetName", api.name);
  Resolve(library, "nvmlDeviceGetPciInfo_v3", api.pci);
  Resolve(library, "nvmlDeviceGetMemoryInfo_v2", api.memory_v2);
  Resolve(library, "nvmlDeviceGetMemoryInfo", api.memory);
  Resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", api.compute);
  Resolve(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", api.graphics);
  Resolve(library, "nvmlDeviceGetMPSComputeRunningProcesses_v3", api.mps);
  Resolve(library, "nvmlDeviceGetUtilizationRates", api.utilization);
  Resolve(library, "nvmlDeviceGetPowerUsage", api.power);
  Resolve(library, "nvmlDeviceGetTotalEnergyConsumption", api.energy);
  Resolve(library, "nvmlDeviceGetTemperature", api.temperature);
  Resolve(library, "nvmlDeviceGetClockInfo", api.clock);
  Resolve(library, "nvmlDeviceGetTotalEccErrors", api.ecc);
  Resolve(library, "nvmlDeviceGetRemappedRows", api.remapped);
  Resolve(library, "nvmlDeviceGetComputeMode", api.compute_mode);
  Resolve(library, "nvmlDeviceGetMigMode", api.mig_mode);
  Resolve(library, "nvmlDeviceGetFieldValues", api.fields);
  Resolve(library, "nvmlEventSetCreate", api.events_create);
  Resolve(library, "nvmlEventSetFree", api.events_free);
  Resolve(library, "nvmlDeviceRegisterEvents", api.events_register);
  Resolve(library, "nvmlEventSetWait_v2", api.events_wait);
  Resolve(library, "nvmlGpmQueryDeviceSupport", api.gpm_support);
  Resolve(library, "nvmlGpmSampleAlloc", api.gpm_alloc);
  Resolve(library, "nvmlGpmSampleFree", api.gpm_free);
  Resolve(library, "nvmlGpmSampleGet", api.gpm_get);
  Resolve(library, "nvmlGpmMetricsGet", api.gpm_metrics);
  return api;
}

const char* MissingFunction(const NvmlApi& api) {
  if (!api.init) return "nvmlInit_v2";
  if (!api.count) return "nvmlDeviceGetCount_v2";
  if (!api.by_index) return "nvmlDeviceGetHandleByIndex_v2";
  if (!api.uuid) return "nvmlDeviceGetUUID";
  if (!api.memory_v2 && !api.memory) return "nvmlDeviceGetMemoryInfo";
  return nullptr;
}

}  // namespace

void CloseLibrary::operator()(void* handle) const {
  ::dlclose(handle);
}

base::Result<NvmlLibrary> LoadNvml(const std::string& library) {
  std::unique_ptr<void, CloseLibrary> handle(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle) {
    const char* why = ::dlerror();
    return base::Fail(base::ErrorCode::kUnavailable,
                      "no NVML library: " + std::string(why ? why : library.c_str()));
  }
  const NvmlApi api = ResolveAll(handle.get());
  if (const char* missing = MissingFunction(api)) {
    return base::Fail(base::ErrorCode::kUnavailable, library + " is no NVML: it has no " + missing);
  }
  return NvmlLibrary{std::move(handle), api};
}

bool MeansAbsent(nvml::Return code) {
  return code == nvml::kNotSupported || code == nvml::kNoPermission ||
         code == nvml::kFunctionNotFound || code == nvml::kNoData ||
         code == nvml::kArgumentVersionMismatch;
}

bool MeansDriverGone(nvml::Return code) {
  return code == nvml::kUninitialized || code == nvml::kDriverNotLoaded;
}

std::unexpected<base::Error> NvmlFailure(const NvmlApi& api, nvml::Return code,
                                         const std::string& doing) {
  const char* text = api.error_string ? api.error_string(code) : nullptr;
  const base::ErrorCode kind =
      code == nvml::kGpuIsLost ? base::ErrorCode::kNotFound : base::ErrorCode::kUnavailable;
  return base::Fail(kind, doing + ": " + (text ? text : "unnamed error") + " (NVML " +
                              std::to_string(code) + ")");
}

}  // namespace carma::gpu
