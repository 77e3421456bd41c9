// The physical models of a simulated GPU server, each with its source. Pure functions of values.
#pragma once

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

// Data loaders of all tasks of a server share its CPU cores. This option is off by default: the
// measured runs hint at the effect (tasks with a demanding task on another GPU ran 10 to 25 %
// longer) but do not determine its constants. A task that needs no cores is not slowed down.
struct HostContention {
  double cores = 0;               // 0: not modelled
  double cores_per_gpu_task = 8;  // busy cores per GPU of a task that states no other number
  // Whether the server promises cores to tasks, and so starts no more tasks than its cores allow.
  bool promised = false;
};
// Factor, in (0, 1], on the speed of the server's tasks when together they need this many cores.
double HostFactor(const HostContention& model, double wanted);

// Failures unrelated to memory. The work until a failure is exponentially distributed, in hours
// alone on the reference GPU.
struct Failures {
  double per_hour = 0;
};

// A task that is stopped or crashes keeps its work up to the last checkpoint, and the next attempt
// continues from there. By default there are no checkpoints.
struct Checkpoints {
  base::Duration every{0};  // period after the first allocation; 0: none
  base::Duration cost{0};   // of writing one, while the task makes no progress
  bool on_stop = false;     // a task writes one when asked to stop
};

// The progress that tasks print and the daemon reads. By default tasks print none.
struct ShownProgress {
  double share = 0;     // share of tasks that print their progress
  double noise = 0.05;  // standard deviation of the factor on the speed that the daemon reads
  base::Duration every{600'000};  // time between two evaluations of a task
  // Length of an evaluation, during which the task prints nothing new.
  base::Duration evaluates{60'000};
};

// Time that a stopped task needs to end. Until then it keeps its memory and makes no progress.
struct Stopping {
  base::Duration takes{2'000};
};

}  // namespace carma::sim
