// Who uses one GPU, as one reading tells it: tasks, strangers, and memory that nobody owns up to.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "daemon/gpus/attribution.h"
#include "gpu/probe.h"

namespace carma::daemon {

struct TaskUse {
  std::int64_t used_mib = 0;  // of its processes whose memory is told
  bool memory_told = true;    // of all of them
  // Share of the last moments in which kernels of its processes ran, 0..1; empty: of one of them
  // the driver does not tell.
  std::optional<double> kernel_time = 0;
  std::vector<pid_t> pids;
};

// A process that belongs to no task; an MPS server is one, but no work of anybody.
struct Stranger {
  pid_t pid = 0;
  ProcessFace face;
  std::optional<std::int64_t> used_mib;
  bool mps_server = false;
  std::optional<double> kernel_time;
};

struct GpuUse {
  std::map<core::TaskId, TaskUse> tasks;  // those with a process on the GPU
  std::vector<Stranger> strangers;
  bool memory_told = true;  // of all processes but MPS servers
  // In use by no process that the driver lists; empty: of some process the memory is not told.
  std::optional<std::int64_t> unattributed_mib;

  int ForeignProcesses() const;  // MPS servers not among them
};
GpuUse WhoUses(const gpu::Reading& reading, Attribution& attribution);

// What part of a GPU's SM activity is whose. Nothing measures that, so it says what it rests on.
struct SmShare {
  double sm_active = 0;
  // "alone": measured, nobody else is there. "kernel-time": split as the driver's coarse times of
  // the processes are. "equal": nothing tells them apart.
  std::string_view by;
};

// One per GPU: the shares reading by reading, smoothed.
class SmShares {
 public:
  // tau: time within which a change shows.
  void Take(const gpu::Reading& reading, const GpuUse& use, base::Duration tau);
  void Clear() { shares_.clear(); }
  std::optional<SmShare> Of(core::TaskId task) const;

 private:
  std::map<core::TaskId, SmShare> shares_;
  base::Time last_{};
};

}  // namespace carma::daemon
