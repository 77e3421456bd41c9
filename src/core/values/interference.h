// What tasks that share a GPU do to each other. Pure functions of values: the core predicts with
// them, and the simulated world obeys them.
#pragma once

#include <cstdint>
#include <span>

#include "core/values/profile.h"
#include "core/values/task.h"

namespace carma::core {

// What a workload does to a GPU and suffers from its neighbours.
struct Load {
  double sm_active = 0;    // u: solo SM activity, 0..1
  double sensitivity = 0;  // s
  double pressure = 0;     // p
  // Under MPS tasks of one user compute side by side, those of several take turns. Where all tasks
  // are as one user's it is 0.
  std::uint32_t user = 0;
  friend bool operator==(const Load&, const Load&) = default;
};

// Load::user of a task on a GPU with MPS that is no client there. Each takes turns with all others:
// with its number in the other bits no two are alike.
inline constexpr std::uint32_t kNoMpsClient = 0x8000'0000;

// The SM activity of a task of which nothing is known, and how much it minds its neighbours; it
// presses on them by its activity.
inline constexpr double kUsualActivity = 0.6;
inline constexpr double kUsualSensitivity = 0.8;
// The load that a task is under MPS: what was measured, else by its activity and the grain of its
// kernels, where both are known, else what is usual.
Load LoadOf(const Profile& profile);

// Fits of two measured A100 runs, Lucid's pairs and the dissertation's anchors;
// docs/inside/simulator.md has the evidence.
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
// 1/(1 + a * g_i * sum of the others' g), likewise. MPS with several users: the tasks of each as
// under MPS, and the users against each other as by streams, each with the activity of its tasks.
void Speeds(const Interference& model, SharingMethod sharing, std::span<const Load> loads,
            std::span<double> speeds);

// True where they are not all one user's.
bool OfSeveralUsers(std::span<const Load> loads);

// SM activity of the GPU, 0..1. MPS: 1 - prod (1 - u_i)^e. Streams: min(0.99, sum u_i * speed_i),
// with the speeds that hold now; likewise under MPS where several users take turns.
double SmActivity(const Interference& model, SharingMethod sharing, std::span<const Load> loads,
                  std::span<const double> speeds);

}  // namespace carma::core
