// NVML's functions, found in a library at run time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/nvml_abi.h"
#include "gpu/read_error.h"

namespace carma::gpu {

// The functions of one library; null: not in the library.
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
  nvml::SetMemoryLimitsFn* set_memory_limits = nullptr;
  nvml::GetMemoryLimitsFn* memory_limits = nullptr;
  nvml::GetProcessesFn* compute = nullptr;
  nvml::GetProcessesFn* graphics = nullptr;
  nvml::GetProcessesFn* mps = nullptr;
  nvml::GetUtilizationFn* utilization = nullptr;
  nvml::GetPowerFn* power = nullptr;
  nvml::GetEnergyFn* energy = nullptr;
  nvml::GetTemperatureFn* temperature = nullptr;
  nvml::GetTemperatureVFn* temperature_v = nullptr;
  nvml::GetClockFn* clock = nullptr;
  nvml::GetEccFn* ecc = nullptr;
  nvml::GetRemappedFn* remapped = nullptr;
  nvml::GetComputeModeFn* compute_mode = nullptr;
  nvml::GetLinkStateFn* link_state = nullptr;
  nvml::GetLinkPciFn* link_pci = nullptr;
  nvml::GetLinkTypeFn* link_type = nullptr;
  nvml::GetMigModeFn* mig_mode = nullptr;
  nvml::GetMigCountFn* mig_count = nullptr;
  nvml::GetMigHandleFn* mig_handle = nullptr;
  nvml::GetInstanceIdFn* gpu_instance_id = nullptr;
  nvml::GetInstanceIdFn* compute_instance_id = nullptr;
  nvml::GetAttributesFn* attributes = nullptr;
  nvml::GetGpuInstanceFn* gpu_instance = nullptr;
  nvml::GetGpuInstanceInfoFn* gpu_instance_info = nullptr;
  nvml::GetProcessUtilizationFn* process_utilization = nullptr;
  nvml::GetFieldsFn* fields = nullptr;
  nvml::EventSetCreateFn* events_create = nullptr;
  nvml::EventSetFreeFn* events_free = nullptr;
  nvml::RegisterEventsFn* events_register = nullptr;
  nvml::EventSetWaitFn* events_wait = nullptr;
  nvml::GpmSupportFn* gpm_support = nullptr;
  nvml::GpmAllocFn* gpm_alloc = nullptr;
  nvml::GpmFreeFn* gpm_free = nullptr;
  nvml::GpmGetFn* gpm_get = nullptr;
  nvml::GpmMigGetFn* gpm_mig_get = nullptr;
  nvml::GpmMetricsFn* gpm_metrics = nullptr;

  bool HasGpm() const { return gpm_support && gpm_alloc && gpm_free && gpm_get && gpm_metrics; }
  bool HasEvents() const { return events_create && events_free && events_register && events_wait; }
  bool HasInstances() const {
    return mig_count && mig_handle && gpu_instance_id && compute_instance_id;
  }

  // Calls visit(name in the library, pointer) for each function, in the order above.
  template <class Visitor>
  void ForEach(Visitor visit) {
    visit("nvmlInit_v2", init);
    visit("nvmlShutdown", shutdown);
    visit("nvmlErrorString", error_string);
    visit("nvmlSystemGetDriverVersion", driver_version);
    visit("nvmlSystemGetNVMLVersion", nvml_version);
    visit("nvmlSystemGetCudaDriverVersion_v2", cuda_version);
    visit("nvmlDeviceGetCount_v2", count);
    visit("nvmlDeviceGetHandleByIndex_v2", by_index);
    visit("nvmlDeviceGetHandleByUUID", by_uuid);
    visit("nvmlDeviceGetUUID", uuid);
    visit("nvmlDeviceGetName", name);
    visit("nvmlDeviceGetPciInfo_v3", pci);
    visit("nvmlDeviceGetMemoryInfo_v2", memory_v2);
    visit("nvmlDeviceGetMemoryInfo", memory);
    visit("nvmlDeviceSetMemoryLimits_v1", set_memory_limits);
    visit("nvmlDeviceGetMemoryLimits_v1", memory_limits);
    visit("nvmlDeviceGetComputeRunningProcesses_v3", compute);
    visit("nvmlDeviceGetGraphicsRunningProcesses_v3", graphics);
    visit("nvmlDeviceGetMPSComputeRunningProcesses_v3", mps);
    visit("nvmlDeviceGetUtilizationRates", utilization);
    visit("nvmlDeviceGetPowerUsage", power);
    visit("nvmlDeviceGetTotalEnergyConsumption", energy);
    visit("nvmlDeviceGetTemperature", temperature);
    visit("nvmlDeviceGetTemperatureV", temperature_v);
    visit("nvmlDeviceGetClockInfo", clock);
    visit("nvmlDeviceGetTotalEccErrors", ecc);
    visit("nvmlDeviceGetRemappedRows", remapped);
    visit("nvmlDeviceGetComputeMode", compute_mode);
    visit("nvmlDeviceGetNvLinkState", link_state);
    visit("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_pci);
    visit("nvmlDeviceGetNvLinkRemoteDeviceType", link_type);
    visit("nvmlDeviceGetMigMode", mig_mode);
    visit("nvmlDeviceGetMaxMigDeviceCount", mig_count);
    visit("nvmlDeviceGetMigDeviceHandleByIndex", mig_handle);
    visit("nvmlDeviceGetGpuInstanceId", gpu_instance_id);
    visit("nvmlDeviceGetComputeInstanceId", compute_instance_id);
    visit("nvmlDeviceGetAttributes_v2", attributes);
    visit("nvmlDeviceGetGpuInstanceById", gpu_instance);
    visit("nvmlGpuInstanceGetInfo", gpu_instance_info);
    visit("nvmlDeviceGetProcessUtilization", process_utilization);
    visit("nvmlDeviceGetFieldValues", fields);
    visit("nvmlEventSetCreate", events_create);
    visit("nvmlEventSetFree", events_free);
    visit("nvmlDeviceRegisterEvents", events_register);
    visit("nvmlEventSetWait_v2", events_wait);
    visit("nvmlGpmQueryDeviceSupport", gpm_support);
    visit("nvmlGpmSampleAlloc", gpm_alloc);
    visit("nvmlGpmSampleFree", gpm_free);
    visit("nvmlGpmSampleGet", gpm_get);
    visit("nvmlGpmMigSampleGet", gpm_mig_get);
    visit("nvmlGpmMetricsGet", gpm_metrics);
  }
};

struct CloseLibrary {
  void operator()(void* handle) const;
};

struct NvmlLibrary {
  std::unique_ptr<void, CloseLibrary> handle;
  NvmlApi api;
};

// Loads a library (a file name for the dynamic linker, or a path) without calling it. Errors:
// kUnavailable: no such library, or one without the indispensable functions.
base::Result<NvmlLibrary> LoadNvml(const std::string& library);

// NVML initialised for a few calls, and shut down by the destructor.
class NvmlSession {
 public:
  explicit NvmlSession(const NvmlApi& api) : api_(api), open_(api.init() == nvml::kSuccess) {}
  ~NvmlSession() {
    if (open_ && api_.shutdown != nullptr) (void)api_.shutdown();
  }
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;
  bool open() const { return open_; }
  // Calls visit(device, UUID) for each whole GPU with a UUID, in NVML's order; for none if the
  // session is not open.
  void ForEachGpu(const std::function<void(nvml::Device, const std::string&)>& visit) const;

 private:
  const NvmlApi& api_;
  bool open_;
};

// Whether the code means that this GPU or this account has no such value.
bool MeansAbsent(nvml::Return code);
// The driver was unloaded, or its library was never initialised.
bool MeansDriverGone(nvml::Return code);
// The driver's text for the code: "Driver Not Loaded (NVML 9)".
std::string NvmlText(const NvmlApi& api, nvml::Return code);

// The consequence if a single value cannot be read.
enum class Weight {
  kDecides,  // the reading fails
  kTells,    // value absent, unless the GPU or driver is gone
};

// Judges the results of one library's calls. Remembers that the driver is gone.
class NvmlCalls {
 public:
  explicit NvmlCalls(const NvmlApi& functions) : api(functions) {}

  // True: the call gave its value; false: there is none. Errors: as FailureOf().
  ReadResult<bool> Given(const std::string& gpu, nvml::Return code, const char* what,
                         Weight weight);
  // "doing: text of the driver"; kNotFound for a lost GPU, else kUnavailable.
  std::unexpected<base::Error> Failure(nvml::Return code, const std::string& doing);
  // The same for one GPU, with the requested value; empty: the GPU itself.
  std::unexpected<ReadError> FailureOf(const std::string& gpu, nvml::Return code,
                                       const std::string& what = "");
  bool driver_gone() const { return driver_gone_; }
  void DriverIsBack() { driver_gone_ = false; }

  const NvmlApi& api;

 private:
  // Notes whether the driver is gone, and returns the error code.
  base::ErrorCode Judge(nvml::Return code);

  bool driver_gone_ = false;
};

}  // namespace carma::gpu
