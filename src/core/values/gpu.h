// GPUs as values: fixed facts, the last sample, promises.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/values/ids.h"
#include "core/values/reservation.h"
#include "core/values/throughput.h"

namespace carma::core {

// Fixed facts, sent once by the shell (GpusDiscovered).
struct GpuInfo {
  std::string uuid;
  std::string type;               // "A100-40GB" …, for messages
  std::int64_t total_mib = 0;     // as the driver reports it
  std::int64_t reserved_mib = 0;  // the driver's own share, never available to processes
  // An instance of a divided GPU (MIG): not for tasks of several GPUs, and by default for one task
  // at a time (PolicyConfig::share_mig).
  bool mig = false;
  double compute = 1;  // share of a whole GPU's SMs; below 1: an instance
  // Speed of training relative to a reference type, the same for all GPUs of the server: 2 is twice
  // as fast. 0: unknown.
  double speed = 0;
  // Numbers of the hardware threads of its NUMA node; empty: unknown.
  std::vector<int> near_cpus;
  std::vector<std::string> linked_to;  // UUIDs of GPUs connected by NVLink
  std::int64_t UsableMib() const { return total_mib - reserved_mib; }
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;
};

// One sample of one GPU. Windowed values are computed by the shell (gpu/window.h) from samples in
// [window_from, taken].
struct GpuSample {
  Time taken{};
  Time window_from{};         // start of the window; equal to taken while there is a single sample
  std::int64_t used_mib = 0;  // all processes, without reserved
  std::optional<double> sm_active;  // mean over the window, 0..1; empty: the GPU does not report it
  // Share of the window in which a kernel ran, 0..1: SM activity never exceeds it. Empty: not
  // reported.
  std::optional<double> utilization;
  // Memory of CARMA's tasks on this GPU. Tasks without an entry hold nothing yet.
  std::vector<std::pair<TaskId, std::int64_t>> tasks_mib;
  // False: the memory of some process is not reported, so tasks_mib is too low (then only used_mib
  // is trusted).
  bool attributed = true;
  int foreign_processes = 0;  // processes that belong to no task of CARMA
  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};

// How a drain's reason begins while the installed driver is not the loaded one.
inline constexpr std::string_view kDriverUpgradeText = "driver upgrade: ";

// What guards and mappers see of a GPU at one moment.
struct GpuView {
  GpuIndex index{};
  std::int64_t total_mib = 0;     // usable: total - reserved
  std::int64_t free_mib = 0;      // usable - foreign - promised; never below 0
  std::int64_t claimed_mib = 0;   // sum of claims
  std::int64_t promised_mib = 0;  // Account::promised_mib
  std::int64_t foreign_mib = 0;
  std::optional<double> sm_active;    // window mean; empty: unknown
  std::optional<double> utilization;  // GpuSample::utilization
  // Its tasks and foreign processes; valid until the core's next event.
  std::span<const Neighbour> residents;
  std::span<const std::uint32_t> users;  // users of its tasks; valid as above
  double delivered = 0;                  // ThroughputOf them
  double slowest = 1;                    // as above
  bool limited = false;                  // one of them limits its slowdown
  double sm_shares = 0;  // sum of the shares that tasks here have declared (TaskRequest::sm_share)
  int tasks = 0;         // of CARMA, launching ones included
  int foreign_processes = 0;
  bool exclusive_task = false;  // a resident may have no neighbours
  bool mig = false;             // GpuInfo::mig
  double compute = 1;           // GpuInfo::compute
  double pace = 1;              // from PacesOf() of the server's GPUs
  bool drained = false;
  bool drained_by_rule = false;    // by the health rules only
  std::optional<Time> empty_by;    // the deadline of an administrator's drain
  bool settled = true;             // its samples show the last placement
  std::optional<Time> settles_by;  // at the latest, if not settled
  // Idle hardware threads of the machine; empty: unknown.
  std::optional<double> idle_cpus;
  bool healthy = true;
  std::string trouble;                 // why it is drained or unhealthy, for people
  std::optional<TaskId> reserved_for;  // kept for a task that has waited long enough, or see below
  bool room_made = false;              // kept because another task has made room for that task
  Time at{};                           // the moment
  // Its current and future reservations; valid until the core's next event.
  std::span<const ReservedPeriod* const> booked;
  mutable KeptThroughput outlook;  // cache for its residents and a new task
  bool Idle() const { return tasks == 0 && foreign_processes == 0; }
  // SM activity; 0 on an empty GPU, whatever its window contains. If unknown: its upper bound, else
  // 1.
  double Activity() const { return Idle() ? 0 : sm_active.value_or(utilization.value_or(1)); }
  // An administrator has drained it and no task is there: it is not sampled, because it may be in
  // any state, for example being reset.
  bool LeftAlone() const { return drained && !drained_by_rule && tasks == 0; }
  bool DriverUpgrade() const { return drained_by_rule && trouble.starts_with(kDriverUpgradeText); }
};

}  // namespace carma::core
