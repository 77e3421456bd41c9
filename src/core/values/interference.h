// How tasks that share a GPU slow each other down. Pure functions: the core predicts with them, and
// the simulated world follows them.
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
  // Under MPS tasks of one user compute side by side, tasks of different users take turns. 0 if all
  // tasks count as one user's.
  std::uint32_t user = 0;
  friend bool operator==(const Load&, const Load&) = default;
};

// Load::user of a task that is not a client on a GPU with MPS. It takes turns with all others; the
// task number in the other bits makes the value unique.
inline constexpr std::uint32_t kNoMpsClient = 0x8000'0000;

// Assumed SM activity of an unknown task, and its sensitivity; its pressure equals its activity.
inline constexpr double kUsualActivity = 0.6;
inline constexpr double kUsualSensitivity = 0.8;
// The load of a task under MPS: as measured, else from activity and grain of its kernels if both
// are known, else assumed.
Load LoadOf(const Profile& profile);

// Fits of two measured A100 runs, Lucid's pairs and the dissertation's anchors;
// docs/inside/simulator.md has the evidence.
struct Interference {
  double mps_saturation = 1.05;  // sum of u_i * speed_i never exceeds this under MPS
  // Option: cost of oversubscription. The throughput limit of a GPU falls to 1.05 / (1 + price *
  // (sum of u_i - 1.05)). Off: in the measured run it did not fall.
  double mps_oversubscription = 0;
  double streams_a = 1.5;  // slowdown_i = 1 + a * g_i * sum g_j, g = 1 - (1-u)^q
  double streams_q = 1.7;
  double smact_exponent = 0.95;  // SMACT = 1 - prod (1-u_i)^e of several MPS clients
  friend bool operator==(const Interference&, const Interference&) = default;
};

// Tasks that take turns never exceed the throughput of the whole GPU.
inline constexpr double kStreamsSaturation = 1.0;

// Returns the load with the sensitivity and pressure that its SM activity implies when tasks take
// turns.
Load AsTurns(const Interference& model, Load load);

// `sharing` is kMps or kStreams. Speed of each resident of one GPU relative to alone, in (0, 1],
// written to `speeds` (same length as `loads`). MPS: 1/(1 + s_i * sum of the others' p), scaled
// down together at saturation. Streams: 1/(1 + a * g_i * sum of the others' g), scaled down in the
// same way. MPS with several users: tasks of one user as under MPS, and users among each other as
// with streams, each with the activity of all its tasks.
void Speeds(const Interference& model, SharingMethod sharing, std::span<const Load> loads,
            std::span<double> speeds);

// Whether the loads belong to more than one user.
bool OfSeveralUsers(std::span<const Load> loads);

// SM activity of the GPU, 0..1. MPS: 1 - prod (1 - u_i)^e. Streams: min(0.99, sum u_i * speed_i),
// with the current speeds; the same under MPS when several users take turns.
double SmActivity(const Interference& model, SharingMethod sharing, std::span<const Load> loads,
                  std::span<const double> speeds);

}  // namespace carma::core
