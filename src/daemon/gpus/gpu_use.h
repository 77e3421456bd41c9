// Determines from a GPU reading which tasks and other processes use the GPU, and how much of its
// memory cannot be attributed to any of them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "daemon/gpus/attribution.h"
#include "gpu/probe.h"

namespace carma::daemon {

struct TaskUse {
  std::int64_t used_mib = 0;  // known memory of the task's processes
  bool memory_told = true;    // whether the memory of all its processes is known
  // Fraction of recent time during which the task's processes ran kernels, 0..1; empty unless the
  // driver reports it for every process.
  std::optional<double> kernel_time = 0;
  std::vector<pid_t> pids;
};

// A process that does not belong to a task. MPS servers are included, even though they do no work
// of their own.
struct Stranger {
  base::ProcessId process;  // start_ticks is 0 if /proc does not show it
  ProcessFace face;         // as in SeenProcess
  std::optional<std::int64_t> used_mib;
  bool mps_server = false;
  std::optional<double> kernel_time;
  bool display = false;  // a display server or desktop program, which hardly uses the GPU
};

struct GpuUse {
  std::map<core::TaskId, TaskUse> tasks;  // tasks with a process on the GPU
  std::vector<Stranger> strangers;
  bool memory_told = true;  // whether the memory of all processes except MPS servers is known
  // Memory in use that cannot be attributed to a listed process; empty if the driver does not
  // report the memory of every process.
  std::optional<std::int64_t> unattributed_mib;

  int ForeignProcesses() const;  // number of strangers, without MPS servers and displays
};
// How each GPU is used in a round of readings. A GPU without a reading counts as unused.
std::vector<GpuUse> WhoUses(const gpu::Round& round, const SeenProcesses& seen,
                            Attribution& attribution);

// A task's share of a GPU's SM activity. If several processes use the GPU, the share can only be
// estimated, so `by` names the method.
struct SmShare {
  double sm_active = 0;
  // "alone" if no other process was running. "kernel-time" if split according to the processes'
  // kernel times, which the driver reports coarsely. "equal" if split equally because a kernel time
  // is unknown or all are 0.
  std::string_view by;
};

// Each task's share of one GPU, smoothed over successive readings.
class SmShares {
 public:
  // tau: time constant of the smoothing.
  void Take(const gpu::Reading& reading, const GpuUse& use, base::Duration tau);
  void Clear() { shares_.clear(); }
  std::optional<SmShare> Of(core::TaskId task) const;

 private:
  std::map<core::TaskId, SmShare> shares_;
  base::Time last_{};
};

}  // namespace carma::daemon
