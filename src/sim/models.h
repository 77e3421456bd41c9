// The physical models of a simulated GPU server, each with its source. Pure functions of values.
#pragma once

#include <span>

#include "base/time.h"
#include "core/task.h"

namespace carma::sim {

// What a workload does to a GPU and suffers from its neighbours.
struct Load {
  double sm_active = 0;    // u: solo SM activity, 0..1
  double sensitivity = 0;  // s
  double pressure = 0;     // p
};

// Fits of two measured A100 runs, Lucid's pairs and the dissertation's anchors; docs/simulator.md
// has the evidence.
struct Interference {
  double mps_saturation = 1.05;  // sum of u_i * speed_i never exceeds this under MPS
  // Option: what oversubscription costs. The most that the tasks of a GPU get done together falls
  // to 1.05 / (1 + price * (sum of u_i - 1.05)). Off: in the measured run it did not fall.
  double mps_oversubscription = 0;
  double streams_a = 1.5;  // slowdown_i = 1 + a * g_i * sum g_j, g = 1 - (1-u)^q
  double streams_q = 1.7;
  double smact_exponent = 0.95;  // SMACT = 1 - prod (1-u_i)^e under MPS
  friend bool operator==(const Interference&, const Interference&) = default;
};

// Tasks that take turns never get more done together than the whole GPU.
inline constexpr double kStreamsSaturation = 1.0;

// A load whose sensitivity and pressure are those that taking turns makes of its SM activity.
Load AsTurns(const Interference& model, Load load);

// `sharing` is kMps or kStreams.
// Speed of each resident of one GPU relative to alone, 0..1], written to `speeds` (same length as
// `loads`). MPS: 1/(1 + s_i * sum of the others' p), scaled down together at saturation. Streams:
// 1/(1 + a * g_i * sum of the others' g), likewise.
void Speeds(const Interference& model, core::SharingMethod sharing, std::span<const Load> loads,
            std::span<double> speeds);

// SM activity of the GPU, 0..1. MPS: 1 - prod (1 - u_i)^e. Streams: min(0.99, sum u_i * speed_i),
// with the speeds that hold now.
double SmActivity(const Interference& model, core::SharingMethod sharing,
                  std::span<const Load> loads, std::span<const double> speeds);

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
// 25 % longer) but do not tell its constants.
struct HostContention {
  double cores = 0;               // 0: not modelled
  double cores_per_gpu_task = 8;  // that one task keeps busy for each of its GPUs
};
// Factor on the speed of every task of the server, 0..1], when tasks hold gpu_parts GPUs in all.
double HostFactor(const HostContention& model, int gpu_parts);

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
