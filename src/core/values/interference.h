// How tasks that share a GPU slow each other down. Pure functions, used by the core for predictions
// and by the simulation as ground truth.
#pragma once

#include <cstdint>
#include <span>

#include "core/values/profile.h"
#include "core/values/sharing.h"

namespace carma::core {

// How a workload loads a GPU and reacts to neighbours.
struct Load {
  double sm_active = 0;    // u: solo SM activity, 0..1
  double sensitivity = 0;  // s
  double pressure = 0;     // p
  // Identifies the user: under MPS, tasks of one user compute side by side, and tasks of different
  // users take turns. 0 for every task if users do not take turns.
  std::uint32_t user = 0;
  friend bool operator==(const Load&, const Load&) = default;
};

// Flag in Load::user for a task that is not an MPS client although its GPU is shared under MPS.
// Such a task takes turns with all other tasks, so its value must be unique: the remaining bits
// are the task number.
inline constexpr std::uint32_t kNoMpsClient = 0x8000'0000;

// The SM activity and sensitivity assumed for an unknown task. Its pressure equals its activity.
inline constexpr double kUsualActivity = 0.6;
inline constexpr double kUsualSensitivity = 0.8;
// The load of a task under MPS: measured values if available; otherwise values derived from the
// activity and kernel size if both are known; otherwise the assumed values.
Load LoadOf(const Profile& profile);

// Parameters fitted to two measured A100 runs, the Lucid artifact's pairs and figures published in
// the dissertation. docs/inside/simulator.md presents the evidence.
struct Interference {
  double mps_saturation = 1.05;  // sum of u_i * speed_i never exceeds this under MPS
  // Optional cost of oversubscription, which lowers a GPU's throughput limit to 1.05 / (1 + cost *
  // (sum of u_i - 1.05)). It is 0 because the limit did not fall in the measured run.
  double mps_oversubscription = 0;
  double streams_a = 1.5;  // slowdown_i = 1 + a * g_i * sum g_j, g = 1 - (1-u)^q
  double streams_q = 1.7;
  double smact_exponent = 0.95;  // SMACT of several MPS clients = 1 - prod (1-u_i)^e
  friend bool operator==(const Interference&, const Interference&) = default;
};

// Tasks that take turns never exceed the throughput of a whole GPU.
inline constexpr double kStreamsSaturation = 1.0;

// Derives the sensitivity and pressure from the load's SM activity, assuming that tasks take turns.
Load AsTurns(const Interference& model, Load load);

// Writes to `speeds` (same length as `loads`) the speed of each resident of one GPU relative to
// running alone, in (0, 1]. `sharing` is kMps or kStreams. At saturation, all speeds are scaled
// down together.
// - MPS: 1/(1 + s_i * sum of the others' p).
// - Streams: 1/(1 + a * g_i * sum of the others' g).
// - MPS with several users: the MPS formula among the tasks of each user, and the streams formula
//   among the users, each with the total activity of their tasks.
void Speeds(const Interference& model, SharingMethod sharing, std::span<const Load> loads,
            std::span<double> speeds);

// True if the loads belong to more than one user.
bool OfSeveralUsers(std::span<const Load> loads);

// The GPU's SM activity, 0..1. MPS: 1 - prod (1 - u_i)^e. Streams: min(0.99, sum u_i * speed_i),
// with the current speeds. If several users take turns under MPS, the streams formula applies.
double SmActivity(const Interference& model, SharingMethod sharing, std::span<const Load> loads,
                  std::span<const double> speeds);

}  // namespace carma::core
