// NVML's functions, found in a library at run time.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/nvml_abi.h"

namespace carma::gpu {

// The functions of one library; null: it has none of that name.
struct NvmlApi {
  nvml::InitFn* init = nullptr;
  nvml::InitFn* shutdown = nullptr;
  nvml::ErrorStringFn* error_string = nullptr;
  nvml::GetVersionFn* driver_version = nullptr;
  nvml::GetVersionFn* nvml_version = nullptr;
  nvml::GetCudaVersionFn* cuda_version = nullptr;
  nvml::GetCountFn* count = nullptr;
  nvml::GetByIndexFn* by_index = nullptr;
  nvml::GetByTextFn* by_uuid = nullptr;
  nvml::GetTextFn* uuid = nullptr;
  nvml::GetTextFn* name = nullptr;
  nvml::GetPciFn* pci = nullptr;
  nvml::GetMemoryV2Fn* memory_v2 = nullptr;
  nvml::GetMemoryFn* memory = nullptr;
  nvml::GetProcessesFn* compute = nullptr;
  nvml::GetProcessesFn* graphics = nullptr;
  nvml::GetProcessesFn* mps = nullptr;
  nvml::GetUtilizationFn* utilization = nullptr;
  nvml::GetPowerFn* power = nullptr;
  nvml::GetEnergyFn* energy = nullptr;
  nvml::GetTemperatureFn* temperature = nullptr;
  nvml::GetClockFn* clock = nullptr;
  nvml::GetEccFn* ecc = nullptr;
  nvml::GetRemappedFn* remapped = nullptr;
  nvml::GetComputeModeFn* compute_mode = nullptr;
  nvml::GetMigModeFn* mig_mode = nullptr;
  nvml::GetFieldsFn* fields = nullptr;
  nvml::EventSetCreateFn* events_create = nullptr;
  nvml::EventSetFreeFn* events_free = nullptr;
  nvml::RegisterEventsFn* events_register = nullptr;
  nvml::EventSetWaitFn* events_wait = nullptr;
  nvml::GpmSupportFn* gpm_support = nullptr;
  nvml::GpmAllocFn* gpm_alloc = nullptr;
  nvml::GpmFreeFn* gpm_free = nullptr;
  nvml::GpmGetFn* gpm_get = nullptr;
  nvml::GpmMetricsFn* gpm_metrics = nullptr;

  bool HasGpm() const { return gpm_support && gpm_alloc && gpm_free && gpm_get && gpm_metrics; }
  bool HasEvents() const { return events_create && events_free && events_register && events_wait; }
};

struct CloseLibrary {
  void operator()(void* handle) const;
};

struct NvmlLibrary {
  std::unique_ptr<void, CloseLibrary> handle;
  NvmlApi api;
};

// Loads a library (a file name for the dynamic linker, or a path) and asks it nothing. Errors:
// kUnavailable: no such library, or one without the indispensable functions.
base::Result<NvmlLibrary> LoadNvml(const std::string& library);

// What the driver means by "this GPU or this account has no such value".
bool MeansAbsent(nvml::Return code);
// The driver was unloaded, or its library was never initialised.
bool MeansDriverGone(nvml::Return code);
// "doing: text of the driver"; kNotFound for a lost GPU, else kUnavailable.
std::unexpected<base::Error> NvmlFailure(const NvmlApi& api, nvml::Return code,
                                         const std::string& doing);

}  // namespace carma::gpu
