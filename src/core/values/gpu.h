// GPUs as values: what is fixed, what the last sample said, what was promised.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/values/reservation.h"
#include "core/values/task.h"
#include "core/values/throughput.h"

namespace carma::core {

// Fixed facts, told once by the shell (GpusDiscovered).
struct GpuInfo {
  std::string uuid;
  std::string type;               // "A100-40GB" …, for messages
  std::int64_t total_mib = 0;     // as the driver reports it
  std::int64_t reserved_mib = 0;  // the driver's own share, never available to processes
  // An instance of a divided GPU (MIG): never for tasks of several GPUs; by default for one task at
  // a time (PolicyConfig::share_mig).
  bool mig = false;
  double compute = 1;  // share of a whole GPU's SMs that it has: less than 1 of an instance
  // Pace of a training task against one on some type of GPU, the same type for all that are told
  // together: 2 is twice as fast. 0: not known.
  double speed = 0;
  // Hardware threads beside it (of its NUMA node), by their numbers; empty: not known.
  std::vector<int> near_cpus;
  std::vector<std::string> linked_to;  // UUIDs of those that it is connected with by NVLink
  std::int64_t UsableMib() const { return total_mib - reserved_mib; }
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;
};

// One look at one GPU. Windowed values are computed by the shell (gpu/window.h), from samples in
// [window_from, taken].
struct GpuSample {
  Time taken{};
  Time window_from{};         // start of the window; equal to taken while there is a single sample
  std::int64_t used_mib = 0;  // all processes, without reserved
  std::optional<double> sm_active;  // mean over the window, 0..1; empty: the GPU does not report it
  // Share of the window in which a kernel ran, 0..1: SM activity never exceeds it. Empty: not told.
  std::optional<double> utilization;
  // Memory of CARMA's tasks as seen on this GPU. Tasks without a line hold nothing yet.
  std::vector<std::pair<TaskId, std::int64_t>> tasks_mib;
  // False: some process's memory is not reported, so tasks_mib says too little (then `used` is
  // trusted as a whole).
  bool attributed = true;
  int foreign_processes = 0;  // processes that belong to no task of CARMA
  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};

// How the reason of a drain by rule begins while another driver is installed than is loaded.
inline constexpr std::string_view kDriverUpgrade = "driver upgrade: ";

// What guards and mappers see of a GPU at one moment.
struct GpuView {
  GpuIndex index{};
  std::int64_t total_mib = 0;     // usable: total - reserved
  std::int64_t free_mib = 0;      // usable - foreign - promised; never below 0
  std::int64_t claimed_mib = 0;   // sum of claims
  std::int64_t promised_mib = 0;  // what is kept for tasks: Account::promised_mib
  std::int64_t foreign_mib = 0;
  std::optional<double> sm_active;    // window mean; empty: unknown
  std::optional<double> utilization;  // GpuSample::utilization
  // Its tasks, and what else computes there; valid until the core is told something.
  std::span<const Neighbour> residents;
  std::span<const std::uint32_t> users;  // whose its tasks are, by uid; likewise
  double delivered = 0;                  // ThroughputOf them
  double slowest = 1;                    // likewise
  bool limited = false;                  // one of them may not be slowed down without limit
  double sm_shares = 0;  // sum of the shares that tasks here have declared (TaskRequest::sm_share)
  int tasks = 0;         // of CARMA, launching ones included
  int foreign_processes = 0;
  bool exclusive_task = false;  // a resident wants no neighbours
  bool mig = false;             // GpuInfo::mig
  double compute = 1;           // GpuInfo::compute; what is delivered there is a share of that
  double pace = 1;              // PacesOf() the server's GPUs
  bool drained = false;
  bool drained_by_rule = false;    // by health alone, not by a person
  bool settled = true;             // its samples show the last placement
  std::optional<Time> settles_by;  // at the latest, where they do not
  // Hardware threads of the machine that nothing uses; empty: not told.
  std::optional<double> idle_cpus;
  bool healthy = true;
  std::string trouble;                 // why it is drained or unhealthy, for people
  std::optional<TaskId> reserved_for;  // kept for a task that waits for recovery
  Time at{};                           // the moment
  // Reserved by people, from that moment on; valid until the core is told something.
  std::span<const ReservedPeriod* const> booked;
  mutable KeptThroughput outlook;  // of its residents with somebody: saves time, says nothing new
  bool Idle() const { return tasks == 0 && foreign_processes == 0; }
  // A person has drained it and no task is there: nobody reads it, for it may be in any state and
  // is to be reset.
  bool LeftAlone() const { return drained && !drained_by_rule && tasks == 0; }
  bool DriverUpgrade() const { return drained_by_rule && trouble.starts_with(kDriverUpgrade); }
};

}  // namespace carma::core
