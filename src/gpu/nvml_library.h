// Finds NVML's functions in a library at run time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "gpu/nvml_abi.h"
#include "gpu/read_error.h"

namespace carma::gpu {

// The address of a library's function, which converts to any function pointer.
struct Symbol {
  template <class Fn>
  operator Fn*() const {
    return reinterpret_cast<Fn*>(address);
  }
  void* address;
};

// The functions of one library. A function is null if the library lacks it.
class NvmlApi {
  Symbol Named(const char* word) const { return {find_(word)}; }
  // The newest function that lists processes as ProcessInfo. In drivers 535.43 to 535.86, "_v3"
  // fills longer entries (NVIDIA/go-nvml issue 75); only these drivers have the first of the two
  // functions below but not the second. Drivers 535.86.10 to 535.98 have no "_v3".
  Symbol Listing(const char* v3, const char* v2) const {
    const bool longer = find_("nvmlDeviceGetConfComputeMemSizeInfo") != nullptr &&
                        find_("nvmlDeviceGetRunningProcessDetailList") == nullptr;
    const Symbol newest = Named(v3);
    return newest.address != nullptr && !longer ? newest : Named(v2);
  }
  std::function<void*(const char* name)> find_;  // declared first: the initialisers below call it

 public:
  // find: returns a function of the library, or null if the library lacks it.
  explicit NvmlApi(std::function<void*(const char* name)> find) : find_(std::move(find)) {}

  nvml::InitFn* init = Named("nvmlInit_v2");
  nvml::InitFn* shutdown = Named("nvmlShutdown");
  nvml::ErrorStringFn* error_string = Named("nvmlErrorString");
  nvml::GetVersionFn* driver_version = Named("nvmlSystemGetDriverVersion");
  nvml::GetVersionFn* nvml_version = Named("nvmlSystemGetNVMLVersion");
  nvml::GetCudaVersionFn* cuda_version = Named("nvmlSystemGetCudaDriverVersion_v2");
  nvml::GetCountFn* count = Named("nvmlDeviceGetCount_v2");
  nvml::GetByIndexFn* by_index = Named("nvmlDeviceGetHandleByIndex_v2");
  nvml::GetByTextFn* by_uuid = Named("nvmlDeviceGetHandleByUUID");
  nvml::GetTextFn* uuid = Named("nvmlDeviceGetUUID");
  nvml::GetTextFn* name = Named("nvmlDeviceGetName");
  nvml::GetPciFn* pci = Named("nvmlDeviceGetPciInfo_v3");
  nvml::GetMemoryV2Fn* memory_v2 = Named("nvmlDeviceGetMemoryInfo_v2");
  nvml::GetMemoryFn* memory = Named("nvmlDeviceGetMemoryInfo");
  nvml::SetMemoryLimitsFn* set_memory_limits = Named("nvmlDeviceSetMemoryLimits_v1");
  nvml::GetMemoryLimitsFn* memory_limits = Named("nvmlDeviceGetMemoryLimits_v1");
  nvml::GetProcessesFn* compute =
      Listing("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2");
  nvml::GetProcessesFn* graphics = Listing("nvmlDeviceGetGraphicsRunningProcesses_v3",
                                           "nvmlDeviceGetGraphicsRunningProcesses_v2");
  nvml::GetProcessesFn* mps = Listing("nvmlDeviceGetMPSComputeRunningProcesses_v3",
                                      "nvmlDeviceGetMPSComputeRunningProcesses_v2");
  nvml::GetUtilizationFn* utilization = Named("nvmlDeviceGetUtilizationRates");
  nvml::GetPowerFn* power = Named("nvmlDeviceGetPowerUsage");
  nvml::GetEnergyFn* energy = Named("nvmlDeviceGetTotalEnergyConsumption");
  nvml::GetTemperatureFn* temperature = Named("nvmlDeviceGetTemperature");
  nvml::GetTemperatureVFn* temperature_v = Named("nvmlDeviceGetTemperatureV");
  nvml::GetClockFn* clock = Named("nvmlDeviceGetClockInfo");
  nvml::GetEccFn* ecc = Named("nvmlDeviceGetTotalEccErrors");
  nvml::GetRemappedFn* remapped = Named("nvmlDeviceGetRemappedRows");
  nvml::GetComputeModeFn* compute_mode = Named("nvmlDeviceGetComputeMode");
  nvml::GetLinkStateFn* link_state = Named("nvmlDeviceGetNvLinkState");
  nvml::GetLinkPciFn* link_pci = Named("nvmlDeviceGetNvLinkRemotePciInfo_v2");
  nvml::GetLinkTypeFn* link_type = Named("nvmlDeviceGetNvLinkRemoteDeviceType");
  nvml::GetMigModeFn* mig_mode = Named("nvmlDeviceGetMigMode");
  nvml::GetMigCountFn* mig_count = Named("nvmlDeviceGetMaxMigDeviceCount");
  nvml::GetMigHandleFn* mig_handle = Named("nvmlDeviceGetMigDeviceHandleByIndex");
  nvml::GetInstanceIdFn* gpu_instance_id = Named("nvmlDeviceGetGpuInstanceId");
  nvml::GetInstanceIdFn* compute_instance_id = Named("nvmlDeviceGetComputeInstanceId");
  nvml::GetAttributesFn* attributes = Named("nvmlDeviceGetAttributes_v2");
  nvml::GetGpuInstanceFn* gpu_instance = Named("nvmlDeviceGetGpuInstanceById");
  nvml::GetGpuInstanceInfoFn* gpu_instance_info = Named("nvmlGpuInstanceGetInfo");
  nvml::GetProcessUtilizationFn* process_utilization = Named("nvmlDeviceGetProcessUtilization");
  nvml::GetFieldsFn* fields = Named("nvmlDeviceGetFieldValues");
  nvml::EventSetCreateFn* events_create = Named("nvmlEventSetCreate");
  nvml::EventSetFreeFn* events_free = Named("nvmlEventSetFree");
  nvml::RegisterEventsFn* events_register = Named("nvmlDeviceRegisterEvents");
  nvml::EventSetWaitFn* events_wait = Named("nvmlEventSetWait_v2");
  nvml::GpmSupportFn* gpm_support = Named("nvmlGpmQueryDeviceSupport");
  nvml::GpmAllocFn* gpm_alloc = Named("nvmlGpmSampleAlloc");
  nvml::GpmFreeFn* gpm_free = Named("nvmlGpmSampleFree");
  nvml::GpmGetFn* gpm_get = Named("nvmlGpmSampleGet");
  nvml::GpmMigGetFn* gpm_mig_get = Named("nvmlGpmMigSampleGet");
  nvml::GpmMetricsFn* gpm_metrics = Named("nvmlGpmMetricsGet");

  bool HasGpm() const { return gpm_support && gpm_alloc && gpm_free && gpm_get && gpm_metrics; }
  bool HasEvents() const { return events_create && events_free && events_register && events_wait; }
  bool HasInstances() const {
    return mig_count && mig_handle && gpu_instance_id && compute_instance_id;
  }
};

struct CloseLibrary {
  void operator()(void* handle) const;
};

struct NvmlLibrary {
  std::unique_ptr<void, CloseLibrary> handle;
  NvmlApi api;
};

// Loads a library without calling its functions. library: a path, or a file name for the dynamic
// linker. Returns kUnavailable if the library is missing or lacks required functions.
Result<NvmlLibrary> LoadNvml(const std::string& library);

// Initialises NVML for a few calls. The destructor shuts it down.
class NvmlSession {
 public:
  explicit NvmlSession(const NvmlApi& api) : api_(api), open_(api.init() == nvml::kSuccess) {}
  ~NvmlSession() {
    if (open_ && api_.shutdown != nullptr) (void)api_.shutdown();
  }
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;
  bool open() const { return open_; }
  // Calls visit(device, UUID) for each whole GPU with a UUID, in NVML's order. Does nothing if the
  // session is not open.
  void ForEachGpu(const std::function<void(nvml::Device, const std::string&)>& visit) const;

 private:
  const NvmlApi& api_;
  bool open_;
};

// True if the code means that this GPU does not have the value or that this account may not read
// it.
bool MeansAbsent(nvml::Return code);
// True if the code means that the driver was unloaded or its library was never initialised.
bool MeansDriverGone(nvml::Return code);
// The driver's text for the code: "Driver Not Loaded (NVML 9)".
std::string NvmlText(const NvmlApi& api, nvml::Return code);

// What happens if a value cannot be read.
enum class Weight {
  kDecides,  // the reading fails
  kTells,    // the value is absent, unless the GPU or driver is gone
};

// Interprets the return codes of one library, and records when the driver is gone.
class NvmlCalls {
 public:
  explicit NvmlCalls(const NvmlApi& functions) : api(functions) {}

  // Returns true if the call produced its value, false if the value is absent, or an error from
  // FailureOf().
  ReadResult<bool> Given(const std::string& gpu, nvml::Return code, const char* what,
                         Weight weight);
  // Returns an error: `doing` followed by the driver's text, with kNotFound for a lost GPU and
  // kUnavailable otherwise.
  std::unexpected<base::Error> Failure(nvml::Return code, const std::string& doing);
  // Like Failure(), for one GPU. what: the requested value; empty for the GPU itself.
  std::unexpected<ReadError> FailureOf(const std::string& gpu, nvml::Return code,
                                       const std::string& what = "");
  bool driver_gone() const { return driver_gone_; }
  void DriverIsBack() { driver_gone_ = false; }

  const NvmlApi& api;

 private:
  // Records whether the driver is gone and returns the error code.
  ErrorCode Judge(nvml::Return code);

  bool driver_gone_ = false;
};

}  // namespace carma::gpu
