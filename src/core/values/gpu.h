// Plain values that describe GPUs: fixed facts, the last sample, and the view that guards and
// mappers see.
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

// Facts about a GPU that do not change. The core's caller sends them once (GpusDiscovered).
struct GpuInfo {
  std::string uuid;
  std::string type;               // "A100-40GB" …, for messages
  std::int64_t total_mib = 0;     // as the driver reports it
  std::int64_t reserved_mib = 0;  // the driver's own share, never available to processes
  // True for a MIG instance, which cannot run a task that uses several GPUs. By default it takes
  // only one task at a time (PolicyConfig::share_mig).
  bool mig = false;
  double compute = 1;  // share of a whole GPU's SMs; below 1 for a MIG instance
  // Training speed relative to a reference GPU type, which is the same for all of the server's
  // GPUs. 2 is twice as fast; 0 if unknown.
  double speed = 0;
  // Numbers of the hardware threads in the GPU's NUMA node; empty if unknown.
  std::vector<int> near_cpus;
  std::vector<std::string> linked_to;  // UUIDs of GPUs connected by NVLink
  std::int64_t UsableMib() const { return total_mib - reserved_mib; }
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;
};

// One sample of one GPU. The core's caller computes windowed values (gpu/window.h) from the samples
// in [window_from, taken].
struct GpuSample {
  Time taken{};
  Time window_from{};         // start of the window; equal to taken while there is a single sample
  std::int64_t used_mib = 0;  // by all processes, without GpuInfo::reserved_mib
  std::optional<double> sm_active;  // mean over the window, 0..1; empty if not reported
  // Share of the window during which a kernel ran, 0..1. SM activity never exceeds this share.
  // Empty if not reported.
  std::optional<double> utilization;
  // Memory used by each CARMA task on this GPU. A task without an entry holds no memory yet.
  std::vector<std::pair<TaskId, std::int64_t>> tasks_mib;
  // False if any process's memory is not reported. In that case, tasks_mib is too low and only
  // used_mib can be trusted.
  bool attributed = true;
  int foreign_processes = 0;  // processes that belong to no CARMA task
  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};

// Prefix of a drain's reason while the installed driver differs from the loaded one.
inline constexpr std::string_view kDriverUpgradeText = "driver upgrade: ";

// A snapshot of a GPU, as guards and mappers see it.
struct GpuView {
  GpuIndex index{};
  std::int64_t total_mib = 0;     // usable: total - reserved
  std::int64_t free_mib = 0;      // usable - foreign - promised; never below 0
  std::int64_t claimed_mib = 0;   // sum of claims
  std::int64_t promised_mib = 0;  // Account::promised_mib
  std::int64_t foreign_mib = 0;
  std::optional<double> sm_active;    // window mean; empty if unknown
  std::optional<double> utilization;  // GpuSample::utilization
  // The GPU's tasks, followed by foreign processes. Valid until the core's next event.
  std::span<const Neighbour> residents;
  std::span<const std::uint32_t> users;  // users of its tasks; valid until the next event
  double delivered = 0;                  // ThroughputEstimate::delivered of the residents
  double slowest = 1;                    // ThroughputEstimate::slowest of the residents
  bool limited = false;                  // some resident limits its slowdown
  // Sum of the SM shares that its tasks have declared (TaskRequest::sm_share).
  double sm_shares = 0;
  int tasks = 0;  // CARMA's tasks, including launching tasks
  int foreign_processes = 0;
  bool exclusive_task = false;  // some resident must not have neighbours
  bool mig = false;             // GpuInfo::mig
  double compute = 1;           // GpuInfo::compute
  double pace = 1;              // from PacesOf() of the server's GPUs
  bool drained = false;
  bool drained_by_rule = false;    // closed only by the health rules
  std::optional<Time> empty_by;    // the deadline of an administrator's drain
  bool settled = true;             // its samples already show the last task placed on it
  std::optional<Time> settles_by;  // latest time at which it settles; empty if settled
  // The machine's idle hardware threads; empty if unknown.
  std::optional<double> idle_cpus;
  bool healthy = true;
  std::string trouble;                 // why it is drained or unhealthy, human-readable
  std::optional<TaskId> reserved_for;  // the recovering or overtaken task that the GPU is kept for
  bool room_made = false;              // kept because another task made room for reserved_for
  Time at{};                           // the time of this view
  // Current and future reservations of the GPU. Valid until the core's next event.
  std::span<const ReservedPeriod* const> booked;
  mutable KeptThroughput outlook;  // cached estimate for its residents plus a new task
  bool Idle() const { return tasks == 0 && foreign_processes == 0; }
  // Returns the GPU's SM activity, or 0 if the GPU is empty, whatever its window contains. If the
  // activity is unknown, returns an upper bound: the utilisation, or 1 if that is also unknown.
  double Activity() const { return Idle() ? 0 : sm_active.value_or(utilization.value_or(1)); }
  // True if an administrator has drained the GPU and no task is on it. Such a GPU is not sampled,
  // because it may be in any state, for example in the middle of a reset.
  bool LeftAlone() const { return drained && !drained_by_rule && tasks == 0; }
  bool DriverUpgrade() const { return drained_by_rule && trouble.starts_with(kDriverUpgradeText); }
};

}  // namespace carma::core
