// The part of NVML's C interface that CARMA calls: names, numbers and layouts of its ABI. It is
// written by hand so that CARMA builds without NVIDIA packages; the library is loaded at run time.
// The simulated driver (simgpu/driver) exports the same functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace carma::gpu::nvml {

// The result code of every call.
using Return = std::int32_t;
inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kTimeout = 10;
inline constexpr Return kFunctionNotFound = 13;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;
inline constexpr Return kLibRmVersionMismatch = 18;
inline constexpr Return kMemory = 20;
inline constexpr Return kNoData = 21;
inline constexpr Return kInsufficientResources = 23;
inline constexpr Return kArgumentVersionMismatch = 25;
inline constexpr Return kDeprecated = 26;
inline constexpr Return kUnknown = 999;

// Opaque handles. A GPM sample is a struct with one pointer and is passed like a pointer.
using Device = struct DeviceHandle*;
using GpmSample = struct GpmSampleHandle*;
using GpuInstance = struct GpuInstanceHandle*;

inline constexpr std::size_t kUuidBytes = 96;
inline constexpr std::size_t kNameBytes = 96;
inline constexpr std::size_t kVersionBytes = 80;

// Stands for "not available" where a count is expected.
inline constexpr std::uint64_t kNoValue64 = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::uint32_t kNoValue32 = std::numeric_limits<std::uint32_t>::max();

// The first word of a struct. It encodes the struct's size and version for the driver.
template <class T>
constexpr std::uint32_t StructVersion(std::uint32_t version) {
  return static_cast<std::uint32_t>(sizeof(T)) | (version << 24);
}

inline constexpr std::uint32_t kMostLinks = 18;    // per GPU
inline constexpr std::uint32_t kLinkToSwitch = 2;  // GetLinkTypeFn

struct PciInfo {
  char bus_id_legacy[16];
  std::uint32_t domain;
  std::uint32_t bus;
  std::uint32_t device;
  std::uint32_t pci_device_id;
  std::uint32_t pci_subsystem_id;
  char bus_id[32];  // "00000000:07:00.0"
};
static_assert(sizeof(PciInfo) == 68);

// Version 1: `used` includes the driver's reserve.
struct Memory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;
};
static_assert(sizeof(Memory) == 24);

// Version 2: total = reserved + free + used.
struct MemoryV2 {
  std::uint32_t version;  // StructVersion<MemoryV2>(2)
  std::uint64_t total;
  std::uint64_t reserved;
  std::uint64_t free;
  std::uint64_t used;
};
static_assert(sizeof(MemoryV2) == 40);

struct ProcessInfo {
  std::uint32_t pid;
  std::uint64_t used_gpu_memory;   // bytes, kNoValue64: not reported
  std::uint32_t gpu_instance;      // kNoValue32 without MIG
  std::uint32_t compute_instance;  // kNoValue32 without MIG
};
static_assert(sizeof(ProcessInfo) == 24);

struct Utilization {
  std::uint32_t gpu;     // percent of the last period during which a kernel ran
  std::uint32_t memory;  // percent during which memory was read or written
};

// One process's utilisation since the requested time. All values are zero if the process did not
// compute.
struct ProcessUtilization {
  std::uint32_t pid;
  std::uint64_t timestamp_us;  // by the driver's clock
  std::uint32_t sm;            // percent of the period in which its kernels ran
  std::uint32_t memory;
  std::uint32_t encoder;
  std::uint32_t decoder;
};
static_assert(sizeof(ProcessUtilization) == 32);

// The engines, slices and memory of a GPU or a MIG instance.
struct DeviceAttributes {
  std::uint32_t multiprocessors;
  std::uint32_t shared_copy_engines;
  std::uint32_t shared_decoders;
  std::uint32_t shared_encoders;
  std::uint32_t shared_jpeg;
  std::uint32_t shared_ofa;
  std::uint32_t gpu_slices;      // slices in its GPU instance
  std::uint32_t compute_slices;  // slices in its compute instance
  std::uint64_t memory_mib;
};
static_assert(sizeof(DeviceAttributes) == 40);

struct GpuInstanceInfo {
  Device device;  // the whole GPU
  std::uint32_t id;
  std::uint32_t profile_id;
  std::uint32_t placement_start;
  std::uint32_t placement_size;
};
static_assert(sizeof(GpuInstanceInfo) == 24);

// A control group's memory on one GPU (r615 and newer), in bytes. These structs have no version.
inline constexpr std::uint64_t kNoMemoryLimit = std::numeric_limits<std::uint64_t>::max();

struct SetMemoryLimits {
  const char* name_space;    // full path of the group's folder
  std::uint64_t soft_limit;  // guaranteed bytes; 0: none
  std::uint64_t hard_limit;  // allocations beyond it fail; kNoMemoryLimit: none
};
static_assert(sizeof(SetMemoryLimits) == 24 && offsetof(SetMemoryLimits, soft_limit) == 8 &&
              offsetof(SetMemoryLimits, hard_limit) == 16);

struct GetMemoryLimits {
  const char* name_space;  // set by the caller
  std::uint64_t soft_limit;
  std::uint64_t hard_limit;
  std::uint64_t current_used;
};
static_assert(sizeof(GetMemoryLimits) == 32 && offsetof(GetMemoryLimits, soft_limit) == 8 &&
              offsetof(GetMemoryLimits, hard_limit) == 16 &&
              offsetof(GetMemoryLimits, current_used) == 24);

inline constexpr std::uint32_t kTemperatureGpu = 0;

struct Temperature {
  std::uint32_t version;  // StructVersion<Temperature>(1)
  std::uint32_t sensor;   // kTemperatureGpu
  std::int32_t celsius;
};
static_assert(sizeof(Temperature) == 12);
inline constexpr std::uint32_t kClockSm = 1;
inline constexpr std::uint32_t kClockMemory = 2;
inline constexpr std::uint32_t kEccCorrected = 0;
inline constexpr std::uint32_t kEccUncorrected = 1;
inline constexpr std::uint32_t kEccSinceLoad = 0;  // "volatile"; 1 counts over the GPU's lifetime

// The value of a field that is requested by its number.
struct FieldValue {
  std::uint32_t field_id;
  std::uint32_t scope_id;
  std::int64_t timestamp_us;
  std::int64_t latency_us;
  std::uint32_t value_type;
  Return result;  // `value` is undefined unless this is kSuccess
  union {
    double real;
    std::uint32_t count;
    std::uint64_t large_count;
  } value;
};
static_assert(sizeof(FieldValue) == 40);
inline constexpr std::uint32_t kFieldRecoveryAction = 230;
inline constexpr std::uint32_t kTypeUnsignedInt = 1;

// Events reported by the driver.
using EventSet = struct EventSetHandle*;
inline constexpr std::uint64_t kEventXidCritical = 0x8;
struct EventData {
  Device device;
  std::uint64_t type;
  std::uint64_t data;              // for kEventXidCritical, the Xid
  std::uint32_t gpu_instance;      // kNoValue32 without MIG
  std::uint32_t compute_instance;  // kNoValue32 without MIG
};
static_assert(sizeof(EventData) == 32);

// GPM computes metrics from two samples of hardware counters.
inline constexpr std::uint32_t kGpmVersion = 1;
inline constexpr std::uint32_t kGpmSmUtil = 2;  // percent of SMs with a warp, mean over the span
// As in the newest known header. Older libraries use only the first metric_count entries.
inline constexpr std::size_t kGpmMetricMax = 333;

struct GpmSupport {
  std::uint32_t version;  // kGpmVersion
  std::uint32_t supported;
};

struct GpmMetric {
  std::uint32_t metric_id;
  Return result;
  double value;
  const char* short_name;
  const char* long_name;
  const char* unit;
};
static_assert(sizeof(GpmMetric) == 40);

struct GpmMetricsGet {
  std::uint32_t version;  // kGpmVersion
  std::uint32_t metric_count;
  GpmSample first;
  GpmSample second;
  GpmMetric metrics[kGpmMetricMax];
};
static_assert(offsetof(GpmMetricsGet, metrics) == 24);

// Function types, for dlsym and for the simulated driver.
using InitFn = Return();
using ErrorStringFn = const char*(Return);
using GetVersionFn = Return(char*, std::uint32_t);
using GetCountFn = Return(std::uint32_t*);
using GetByIndexFn = Return(std::uint32_t, Device*);
using GetByTextFn = Return(const char*, Device*);
using GetTextFn = Return(Device, char*, std::uint32_t);
using GetPciFn = Return(Device, PciInfo*);
using GetMemoryFn = Return(Device, Memory*);
using GetMemoryV2Fn = Return(Device, MemoryV2*);
// Only root may set limits, and only on whole GPUs (no MIG handles). Returns kNotFound if the group
// does not exist or cannot have limits.
using SetMemoryLimitsFn = Return(Device, SetMemoryLimits*);
using GetMemoryLimitsFn = Return(Device, GetMemoryLimits*);
using GetProcessesFn = Return(Device, std::uint32_t*, ProcessInfo*);
using GetUtilizationFn = Return(Device, Utilization*);
using GetPowerFn = Return(Device, std::uint32_t*);   // milliwatts
using GetEnergyFn = Return(Device, std::uint64_t*);  // millijoules since the driver was loaded
using GetTemperatureFn = Return(Device, std::uint32_t, std::uint32_t*);
using GetTemperatureVFn = Return(Device, Temperature*);
using GetClockFn = Return(Device, std::uint32_t, std::uint32_t*);  // MHz
using GetEccFn = Return(Device, std::uint32_t error, std::uint32_t counter, std::uint64_t*);
// The results are, in order: corrected, uncorrected, pending, failed.
using GetRemappedFn = Return(Device, std::uint32_t*, std::uint32_t*, std::uint32_t*,
                             std::uint32_t*);
// NVLink: whether a link is active, and the device at its other end.
using GetLinkStateFn = Return(Device, std::uint32_t link, std::uint32_t* active);
using GetLinkPciFn = Return(Device, std::uint32_t link, PciInfo* other);
using GetLinkTypeFn = Return(Device, std::uint32_t link, std::uint32_t* other);
using GetComputeModeFn = Return(Device, std::uint32_t*);
using GetMigModeFn = Return(Device, std::uint32_t* current, std::uint32_t* pending);
// Functions for the instances of a MIG GPU. For an index below the maximum count, the driver
// returns kNotFound if there is no such instance.
using GetMigCountFn = Return(Device, std::uint32_t*);
using GetMigHandleFn = Return(Device, std::uint32_t index, Device*);
using GetInstanceIdFn = Return(Device mig, std::uint32_t*);
using GetAttributesFn = Return(Device, DeviceAttributes*);
using GetGpuInstanceFn = Return(Device, std::uint32_t id, GpuInstance*);
using GetGpuInstanceInfoFn = Return(GpuInstance, GpuInstanceInfo*);
using GetProcessUtilizationFn = Return(Device, ProcessUtilization*, std::uint32_t* count,
                                       std::uint64_t newer_than_us);
using GetFieldsFn = Return(Device, std::int32_t count, FieldValue*);
using GetCudaVersionFn = Return(std::int32_t*);  // 12040: 12.4
using EventSetCreateFn = Return(EventSet*);
using EventSetFreeFn = Return(EventSet);
using RegisterEventsFn = Return(Device, std::uint64_t types, EventSet);
using EventSetWaitFn = Return(EventSet, EventData*, std::uint32_t timeout_ms);
using GpmSupportFn = Return(Device, GpmSupport*);
using GpmAllocFn = Return(GpmSample*);
using GpmFreeFn = Return(GpmSample);
using GpmGetFn = Return(Device, GpmSample);
using GpmMigGetFn = Return(Device, std::uint32_t gpu_instance, GpmSample);
using GpmMetricsFn = Return(GpmMetricsGet*);

}  // namespace carma::gpu::nvml
