// Reads GPUs. Knows no tasks, only pids.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/words.h"
#include "gpu/read_error.h"

namespace carma::gpu {

// Where an instance of a divided GPU (MIG) lies. Profiles are known by their number: their names
// differ between drivers.
struct MigPlace {
  std::string parent_uuid;
  int gpu_instance = 0;
  int compute_instance = 0;
  int profile = -1;          // NVML's number of the GPU instance's profile; -1: not told
  std::string profile_name;  // "3g.20gb", as far as slices and memory tell
  friend bool operator==(const MigPlace&, const MigPlace&) = default;
};

// What an administrator can do something of its own about; the text says the rest.
enum class TroubleCause {
  kOther,
  kNoInstance,    // MIG is on, and nothing was divided off
  kSharedMemory,  // a compute instance beside another of the same GPU instance
  kHangs,         // the driver does not come back from a question about it
};
inline constexpr std::pair<TroubleCause, std::string_view> kTroubleCauseWords[] = {
    {TroubleCause::kOther, "other"},
    {TroubleCause::kNoInstance, "no_instance"},
    {TroubleCause::kSharedMemory, "shared_memory"},
    {TroubleCause::kHangs, "hangs"}};

struct DeviceTrouble {
  std::string text;  // for people, nothing is decided by it; empty: there is none
  TroubleCause cause = TroubleCause::kOther;
  std::string gpu = {};  // whom the text does not name, as ReadError::gpu
  bool empty() const { return text.empty(); }
  std::string Sentence() const { return OfGpu(gpu, text); }
  friend bool operator==(const DeviceTrouble&, const DeviceTrouble&) = default;
};

// A whole GPU, or in its place each of the instances that it is divided into.
struct DeviceInfo {
  std::string uuid;  // of an instance: "MIG-…"
  std::string name;  // "NVIDIA A100-SXM4-40GB"
  std::string pci;   // "00000000:07:00.0", the order of the list
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  bool reports_sm_activity = false;
  std::optional<MigPlace> mig;
  // UUIDs of the other GPUs that it is connected with by NVLink, directly or through switches; none
  // of an instance.
  std::vector<std::string> linked_to = {};
  // Why it could not be described; empty: it was. Such a one is listed at its place all the same,
  // so that the others can be used; its UUID may be a made-up "GPU-unknown-3", its memory is 0, and
  // Read() says kNotFound.
  DeviceTrouble trouble;
  friend bool operator==(const DeviceInfo&, const DeviceInfo&) = default;
};

struct ProcessUse {
  pid_t pid = 0;
  std::optional<std::int64_t> used_mib;  // empty: the driver does not say
  bool mps_server = false;               // never counted as work
  bool mps_client = false;               // computes through an MPS server
  // Share of the last moments in which its kernels ran, 0..1, as coarse as Reading::utilization;
  // empty: the driver does not tell (never under MPS and on MIG instances).
  std::optional<double> kernel_time;
  friend bool operator==(const ProcessUse&, const ProcessUse&) = default;
};

// Who counted the activity of a GPU's units (Counter in counters.h).
enum class CounterSource {
  kNone,  // nobody: only the coarse utilisation is known
  kGpm,   // the driver's own counters, Hopper and newer
  kDcgm,  // `dcgmi dmon`
};
std::string_view CounterSourceName(CounterSource source);  // "none", "gpm", "dcgm"

enum class ComputeMode {
  kDefault = 0,
  kExclusiveThread = 1,
  kProhibited = 2,
  kExclusiveProcess = 3
};

// What the driver wants done with a GPU before it is whole again.
enum class RecoveryAction {
  kNone = 0,
  kGpuReset = 1,
  kNodeReboot = 2,
  kDrainP2p = 3,
  kDrainAndReset = 4,
  kOther = 5,  // one that this program does not know
};

// State that changes rarely. Absent: not supported, not permitted, or not answered.
struct Condition {
  std::optional<std::int64_t> ecc_corrected;    // errors of memory since the driver was loaded
  std::optional<std::int64_t> ecc_uncorrected;  // the same, beyond repair
  std::optional<std::int64_t> rows_remapped;    // rows of memory replaced by spares, ever
  std::optional<bool> remap_pending;            // more will be at the next reset
  std::optional<bool> remap_failed;             // the spares are used up
  std::optional<ComputeMode> compute_mode;
  std::optional<bool> mig;  // divided into instances
  std::optional<RecoveryAction> recovery;
  friend bool operator==(const Condition&, const Condition&) = default;
};

// What one device answered at one moment. Absent: not supported or not answered.
struct Reading {
  base::Time taken{};
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  std::int64_t used_mib = 0;          // without reserved
  std::optional<double> sm_active;    // 0..1, since the previous reading
  std::optional<double> utilization;  // 0..1, "a kernel was running", coarse
  std::optional<double> power_w;
  std::optional<double> energy_j;  // since the driver was loaded
  std::optional<double> temperature_c;
  std::vector<ProcessUse> processes;  // one line per pid

  // The other counters, from the same source and over the same span as sm_active; fractions 0..1.
  CounterSource counters = CounterSource::kNone;
  std::optional<double> sm_occupancy;     // warps of those that the SMs could hold
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
  // Critical errors that the driver announced since the previous reading. Of a divided GPU each
  // instance gets those of its own and those that concern all.
  std::vector<int> xids;
  friend bool operator==(const Reading&, const Reading&) = default;
};

// What one look at all devices gave, in order; empty for those that were left alone.
using Round = std::vector<std::optional<ReadResult<Reading>>>;

class Probe {
 public:
  virtual ~Probe() = default;
  // Devices in PCI order. Errors: kUnavailable: no driver or it does not answer; if none of the
  // GPUs can be described, the first one's. May block; worker only.
  virtual ReadResult<std::vector<DeviceInfo>> Devices() = 0;
  // Errors per device: kUnavailable (try again), kNotFound (the GPU is lost), kCorrupt (a value
  // that cannot be true: NaN, sentinel, used > total). May block; worker only.
  virtual ReadResult<Reading> Read(std::size_t device, base::Time now) = 0;
  // Devices of the last list that nobody will read until the next such call: what the driver keeps
  // open for them may be let go.
  virtual void LeaveAlone(const std::set<std::size_t>& /*devices*/) {}
};

}  // namespace carma::gpu

template <>
inline constexpr carma::base::Words<carma::gpu::TroubleCause>
    carma::base::kWordsOf<carma::gpu::TroubleCause> = carma::gpu::kTroubleCauseWords;
