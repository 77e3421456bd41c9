// The physical models of a simulated GPU server, each with its source. Pure functions of values.
#pragma once

#include "base/time.h"
#include "core/values/interference.h"

namespace carma::sim {

// How tasks share a GPU is what the core believes of it too (core/interference.h).
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

// Data loaders of all tasks of a server share its CPU cores. An option, off by default: the runs
// behind the other constants hint at it (tasks beside a hungry neighbour on another GPU ran 10 to
// 25 % longer) but do not tell its constants. A task that wants none is not slowed down.
struct HostContention {
  double cores = 0;  // 0: not modelled
  double cores_per_gpu_task =
      8;  // that one task keeps busy for each of its GPUs, if it is not told
  // The server promises its cores, so that it starts no more tasks than it has cores for.
  bool promised = false;
};
// Factor on the speed of the server's tasks, 0..1], when they want so many cores together.
double HostFactor(const HostContention& model, double wanted);

// Ends that have nothing to do with memory: exponential in the time that a task computes.
struct Failures {
  double per_hour = 0;
};

// What a task keeps when it is stopped or crashes: its work up to its last checkpoint, from which
// its next attempt goes on. Options; by default none is ever written.
struct Checkpoints {
  base::Duration every{0};  // after the first allocation, again and again; 0: none
  base::Duration cost{0};   // of writing one: so long the task does not get on
  bool on_stop = false;     // who is asked to stop writes one before it ends
};

// How a task ends that the core stops: it holds what it holds until then and does no more work.
struct Stopping {
  base::Duration takes{2'000};
};

}  // namespace carma::sim
