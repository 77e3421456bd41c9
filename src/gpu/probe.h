// The interface for reading GPUs. It knows about processes, but not about tasks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/time.h"
#include "base/words.h"
#include "gpu/read_error.h"

namespace carma::gpu {

// Limits on values that are read from JSON (reading_json.h).
inline constexpr base::FieldRule kMibRule{.low = 0, .high = std::int64_t{1} << 40};
inline constexpr base::FieldRule kCountRule{.low = 0, .high = std::int64_t{1} << 53};
inline constexpr base::FieldRule kInstanceRule{.low = 0, .high = 1 << 20};
inline constexpr base::FieldRule kNameRule{.max_bytes = 200};

// The position of a MIG instance on its GPU. Profiles are identified by their number, because their
// names differ between drivers.
struct MigPlace {
  std::string parent_uuid;
  int gpu_instance = 0;
  int compute_instance = 0;
  int profile = -1;          // NVML's number for the GPU instance's profile; -1: not reported
  std::string profile_name;  // "3g.20gb", derived from slices and memory
  int slices = 7;            // slices of the whole GPU, the limit on instances

  static void VisitFields(auto& field, auto& place) {
    field("parent", place.parent_uuid, "", kNameRule);
    field("gpu_instance", place.gpu_instance, "", kInstanceRule);
    field("compute_instance", place.compute_instance, "", kInstanceRule);
    field("profile", place.profile, "", {.low = -1, .high = kInstanceRule.high});
    field("profile_name", place.profile_name, "", kNameRule);
    field("slices", place.slices, "", {.low = 1, .high = kInstanceRule.high});
  }
  friend bool operator==(const MigPlace&, const MigPlace&) = default;
};

// The causes of trouble that need different handling. DeviceTrouble::text has the details.
enum class TroubleCause {
  kOther,
  kNoInstance,       // MIG is on, but there are no instances
  kHiddenInstances,  // MIG is on, but the instances cannot be listed or opened
  kSharedMemory,     // several compute instances share one GPU instance
  kHangs,            // a driver call for this GPU does not return
};
inline constexpr std::pair<TroubleCause, std::string_view> kTroubleCauseWords[] = {
    {TroubleCause::kOther, "other"},
    {TroubleCause::kNoInstance, "no_instance"},
    {TroubleCause::kHiddenInstances, "hidden_instances"},
    {TroubleCause::kSharedMemory, "shared_memory"},
    {TroubleCause::kHangs, "hangs"}};

struct DeviceTrouble {
  std::string text;  // human-readable; empty: none
  TroubleCause cause = TroubleCause::kOther;
  std::string gpu = {};  // as ReadError::gpu; `text` does not name the GPU
  bool empty() const { return text.empty(); }
  std::string Sentence() const { return OfGpu(gpu, text); }
  friend bool operator==(const DeviceTrouble&, const DeviceTrouble&) = default;
};

// How made-up UUIDs begin ("GPU-unknown-3", "MIG-unknown-3-0").
inline constexpr std::string_view kUnknownGpu = "GPU-unknown-";
inline constexpr std::string_view kUnknownInstance = "MIG-unknown-";

// A whole GPU, or one MIG instance.
struct DeviceInfo {
  std::string uuid;  // "MIG-…" for an instance
  std::string name;  // "NVIDIA A100-SXM4-40GB"
  std::string pci;   // "00000000:07:00.0"; lists are sorted by it
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  bool reports_sm_activity = false;
  std::optional<MigPlace> mig;
  // UUIDs of other GPUs that are connected by NVLink, directly or through switches. Empty for an
  // instance.
  std::vector<std::string> linked_to = {};
  // Why the device could not be described; empty if it was described. A device in trouble is listed
  // anyway so that the other devices can be used. Its UUID may be made up (kUnknownGpu), its memory
  // is 0, and Read() returns kNotFound.
  DeviceTrouble trouble;

  // Omits trouble.cause.
  static void VisitFields(auto& field, auto& info) {
    field("uuid", info.uuid, "", kNameRule);
    field("name", info.name, "", kNameRule);
    field("pci", info.pci, "", kNameRule);
    field("total_mib", info.total_mib, "", kMibRule);
    field("reserved_mib", info.reserved_mib, "", kMibRule);
    field("reports_sm_activity", info.reports_sm_activity);
    field("linked_to", info.linked_to, "",
          {.max_bytes = kNameRule.max_bytes, .max_items = 1024, .unless_empty = true});
    field("mig", info.mig);
    field("trouble", info.trouble.text, "", {.max_bytes = 4'096, .unless_empty = true});
    field("trouble_gpu", info.trouble.gpu, "",
          {.max_bytes = kNameRule.max_bytes, .unless_empty = true});
  }
  friend bool operator==(const DeviceInfo&, const DeviceInfo&) = default;
};

struct ProcessUse {
  pid_t pid = 0;
  std::optional<std::int64_t> used_mib;  // empty: the driver does not report it
  bool mps_server = false;               // never counted as work
  bool mps_client = false;               // computes through an MPS server
  bool graphics = false;                 // only draws: it is in no other list
  // The fraction of recent time during which the process's kernels ran, 0..1. As coarse as
  // Reading::utilization. Empty if not reported, which is always the case under MPS and on MIG
  // instances.
  std::optional<double> kernel_time;
  // The process's nearest control group with its own GPU memory limit, as a path in
  // /proc/PID/cgroup. Empty if no group has a limit. group_mib: memory used by all processes of
  // this group.
  std::string group;
  std::int64_t group_mib = 0;

  static void VisitFields(auto& field, auto& use) {
    field("pid", use.pid, "", {.low = 0, .high = 1 << 30});
    field("used_mib", use.used_mib, "", kMibRule);
    field("mps_server", use.mps_server, "", {.unless_empty = true});
    field("mps_client", use.mps_client, "", {.unless_empty = true});
    field("graphics", use.graphics, "", {.unless_empty = true});
    field("kernel_time", use.kernel_time, "", {.least = 0, .most = 1});
    field("group", use.group, "", {.max_bytes = 4'096, .unless_empty = true});
    field("group_mib", use.group_mib, "", {.low = 0, .high = kMibRule.high, .unless_empty = true});
  }
  friend bool operator==(const ProcessUse&, const ProcessUse&) = default;
};

// Source of a GPU's activity counters (Counter in counters.h).
enum class CounterSource {
  kNone,  // only the coarse utilisation is known
  kGpm,   // the driver's own counters, Hopper and newer
  kDcgm,  // `dcgmi dmon`
};
inline constexpr std::pair<CounterSource, std::string_view> kCounterSourceWords[] = {
    {CounterSource::kNone, "none"}, {CounterSource::kGpm, "gpm"}, {CounterSource::kDcgm, "dcgm"}};

enum class ComputeMode {
  kDefault = 0,
  kExclusiveThread = 1,
  kProhibited = 2,
  kExclusiveProcess = 3
};

// The recovery action that the driver requests for a GPU.
enum class RecoveryAction {
  kNone = 0,
  kGpuReset = 1,
  kNodeReboot = 2,
  kDrainP2p = 3,
  kDrainAndReset = 4,
  kOther = 5,  // unknown to this program
};

// The parts of a GPU's state that change rarely. A value is absent if the driver does not support,
// permit or return it.
struct Condition {
  std::optional<std::int64_t> ecc_corrected;    // corrected memory errors since driver load
  std::optional<std::int64_t> ecc_uncorrected;  // uncorrected memory errors
  std::optional<std::int64_t> rows_remapped;    // memory rows replaced by spares so far
  std::optional<bool> remap_pending;            // more rows will be replaced at the next reset
  std::optional<bool> remap_failed;             // no spare rows left
  std::optional<ComputeMode> compute_mode;
  std::optional<bool> mig;  // divided into instances
  std::optional<RecoveryAction> recovery;

  static void VisitFields(auto& field, auto& condition) {
    field("ecc_corrected", condition.ecc_corrected, "", kCountRule);
    field("ecc_uncorrected", condition.ecc_uncorrected, "", kCountRule);
    field("rows_remapped", condition.rows_remapped, "", kCountRule);
    field("remap_pending", condition.remap_pending);
    field("remap_failed", condition.remap_failed);
    field("compute_mode", condition.compute_mode, "",
          {.high = static_cast<int>(ComputeMode::kExclusiveProcess)});
    field("mig", condition.mig);
    field("recovery", condition.recovery, "", {.high = static_cast<int>(RecoveryAction::kOther)});
  }
  friend bool operator==(const Condition&, const Condition&) = default;
};

// A reading of one device at one point in time. A value is absent if the driver does not support or
// return it.
struct Reading {
  base::Time taken{};
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t used_mib = 0;          // without reserved memory
  std::optional<double> sm_active;    // 0..1, since the previous reading
  std::optional<double> utilization;  // 0..1, "a kernel was running", coarse
  std::optional<double> power_w;
  std::optional<double> energy_j;  // since the driver was loaded
  std::optional<double> temperature_c;
  std::vector<ProcessUse> processes;  // one entry per pid
  bool processes_hidden = false;      // the driver does not list the processes that compute

  // The other counters. They have the same source as sm_active and cover the same span; fractions
  // are 0..1.
  CounterSource counters = CounterSource::kNone;
  std::optional<double> sm_occupancy;     // warps relative to the SMs' maximum
  std::optional<double> graphics_active;  // the graphics or compute engine had work
  std::optional<double> tensor_active;
  std::optional<double> dram_active;
  std::optional<double> fp64_active;
  std::optional<double> fp32_active;
  std::optional<double> fp16_active;
  std::optional<double> pcie_tx_bytes_s;  // sent by the GPU
  std::optional<double> pcie_rx_bytes_s;
  std::optional<double> nvlink_tx_bytes_s;
  std::optional<double> nvlink_rx_bytes_s;

  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  Condition condition;
  // Critical errors that the driver has reported since the previous reading. On a MIG GPU, each
  // instance gets its own errors and the errors of the whole GPU.
  std::vector<int> xids;

  // Visits all members except `taken`. Defined in reading_json.cc, its only user.
  static void VisitFields(auto& field, auto& reading);
  friend bool operator==(const Reading&, const Reading&) = default;
};

// The results of reading all devices, in order. An entry is empty if its device was not
// read (Probe::LeaveAlone).
using Round = std::vector<std::optional<ReadResult<Reading>>>;

class Probe {
 public:
  virtual ~Probe() = default;
  // Lists the devices in PCI order. Returns kUnavailable if there is no driver or it does not
  // respond, and the first GPU's error if no GPU can be described. May block, so call it only on a
  // worker thread.
  virtual ReadResult<std::vector<DeviceInfo>> Devices() = 0;
  // Reads one device. Fails with kUnavailable (try again), kNotFound (the GPU is lost), kConflict
  // (the driver's list has changed: call Devices() first) or kCorrupt (impossible value: NaN,
  // sentinel, used > total). May block, so call it only on a worker thread.
  virtual ReadResult<Reading> Read(std::size_t device, base::Time now) = 0;
  // Announces that these devices from the last list will not be read until the next LeaveAlone().
  // The driver's handles for them may be released.
  virtual void LeaveAlone(const std::set<std::size_t>& /*devices*/) {}
  // From now on, GPUs keep the numbers that they have in this list, even if the driver's list
  // changes.
  virtual void Keep(std::vector<DeviceInfo> /*devices*/) {}
};

}  // namespace carma::gpu

template <>
inline constexpr carma::base::Words<carma::gpu::TroubleCause>
    carma::base::kWordsOf<carma::gpu::TroubleCause> = carma::gpu::kTroubleCauseWords;
template <>
inline constexpr carma::base::Words<carma::gpu::CounterSource>
    carma::base::kWordsOf<carma::gpu::CounterSource> = carma::gpu::kCounterSourceWords;
