// The physical models of a simulated GPU server, each with a reference. All are pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "core/values/interference.h"

namespace carma::sim {

// The sharing model is the core's own (core/values/interference.h).
using core::AsTurns;
using core::Interference;
using core::kStreamsSaturation;
using core::Load;
using core::SmActivity;
using core::Speeds;

// Power = min(max, idle + dynamic * (1 - exp(-k * smact))) W. Defaults: A100-SXM4-40GB (R2 0.946
// over two runs).
struct PowerModel {
  double idle_w = 53.8;
  double dynamic_w = 286.2;
  double k = 1.491;
  double max_w = 275;
};
double PowerW(const PowerModel& model, double smact);

// Slowdown of tasks whose data loaders compete for the server's CPU cores. Tasks that need no cores
// are not affected. Off by default, because there is too little data to fit the constants: in the
// measured runs, tasks took 10 to 25 % longer while a demanding task ran on another GPU.
struct HostContention {
  double cores = 0;               // 0: not modelled
  double cores_per_gpu_task = 8;  // busy cores per GPU if a task does not specify a number
  // True if the server promises cores to tasks and never starts more tasks than its cores allow.
  bool promised = false;
};
// Factor in (0, 1] for the speed of a server's tasks when they need `wanted` cores in total.
double HostFactor(const HostContention& model, double wanted);

// Failures unrelated to memory. The amount of work before a failure, in hours of running alone on
// the reference GPU, is exponentially distributed.
struct Failures {
  double per_hour = 0;
};

// A task that is stopped or crashes keeps its work up to the last checkpoint, and the next attempt
// continues from there. By default there are no checkpoints.
struct Checkpoints {
  base::Duration every{0};  // period after the first allocation; 0: none
  base::Duration cost{0};   // time to write one; the task makes no progress meanwhile
  bool on_stop = false;     // a task writes one when asked to stop
};

// The progress that tasks print and the daemon reads. By default tasks print none.
struct ShownProgress {
  double share = 0;     // share of tasks that print their progress
  double noise = 0.05;  // standard deviation of a random factor on the speed that the daemon reads
  base::Duration every{600'000};  // time between two evaluations of a task
  // Duration of an evaluation, during which the task prints nothing new.
  base::Duration evaluates{60'000};
};

// Time that a stopped task takes to exit. It keeps its memory until then but makes no progress.
struct Stopping {
  base::Duration takes{2'000};
};

// The defaults follow the two measured A100 runs in docs/inside/simulator.md. A task allocates
// nothing for about 14 s (imports, CUDA context, first batch), and then holds its full memory, the
// plateau, until it ends. If the allocation fails, the process exits about 8 s later. Unless the
// options below let it grow, a running task never crashes, because it has already allocated all its
// memory.
struct MemoryModel {
  base::Duration load{14'000};        // launch to first allocation
  base::Duration crash_delay{8'000};  // failed allocation to process exit
  // Option: the first allocation takes only this share of the plateau. The rest follows in equal
  // steps over `ramp`. Each step can fail for lack of memory; such a late crash loses work.
  double first_share = 1.0;
  base::Duration ramp{0};
  // Option: after the ramp, memory grows in steps, by this share of the plateau per hour (caches,
  // leaks).
  double growth_per_hour = 0;
  // Option: after the ramp, the task briefly holds this additional share of the plateau once per
  // `spike_every` (an evaluation, an algorithm search). Each spike can fail for lack of memory.
  double spike_share = 0;
  base::Duration spike_every{3'600'000};
  base::Duration spike_lasts{30'000};
  // Option: unusable memory for each task beyond the first on a GPU (fragmentation and, without
  // MPS, one more context).
  std::int64_t fragmentation_mib = 0;
};

// Memory of a task with this plateau at time `since` after its first allocation.
std::int64_t HeldMib(const MemoryModel& model, std::int64_t plateau_mib, base::Duration since);
// The next change of the task's memory, counted from its first allocation; empty if there is none.
std::optional<base::Duration> NextStep(const MemoryModel& model, base::Duration since);
// GPU memory that this many tasks together can use.
std::int64_t AllocatableMib(const MemoryModel& model, std::int64_t usable_mib, std::int64_t tasks);

}  // namespace carma::sim
