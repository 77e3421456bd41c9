// Guesses the interference parameters of a task that has never been measured. Pure.
#pragma once

#include <optional>

namespace carma::core {

// The properties of a task that are known without measuring it.
struct TaskTraits {
  bool transformer = false;  // else a convolutional network
  std::optional<int> batch_size;
  std::optional<int> layers;  // only layers with weights: convolutions and linear layers
  friend bool operator==(const TaskTraits&, const TaskTraits&) = default;
};

// s (sensitivity) and p (pressure) in slowdown_i = 1 + s_i * sum of the neighbours' p_j.
struct MpsParameters {
  double sensitivity = 0;
  double pressure = 0;
  friend bool operator==(const MpsParameters&, const MpsParameters&) = default;
};

// Under MPS, tasks with many small kernels lose and tasks with few large kernels win. sm_active: SM
// activity u of the task when it runs alone, 0..1.
// - Convolutional networks: s = 0.784 * u * g^-0.729, p = 1.476 * u * g^0.543. The kernel size g is
//   estimated from the batch per layer: g = (batch / 128) * (60 / layers).
// - If the number of layers is unknown: s = 0.787 * sqrt(u) * (128 / batch)^0.740 and p = 1.757 *
//   u^2 * (batch / 128)^0.658. An unknown batch size counts as 64.
// - Transformers: s = 0.485, p = 0.649 * u.
// Fitted on one measured run of 58 tasks of ten architectures; docs/inside/simulator.md has the
// errors for architectures that were held out of the fit.
MpsParameters GuessMps(double sm_active, const TaskTraits& traits);

// The kernel size g of a convolutional network, clamped to the fitted range. Empty for transformers
// and if the batch size or layer count is unknown. For architectures that the fit does not cover,
// only guesses based on g were accurate.
std::optional<double> GrainOf(const TaskTraits& traits);
MpsParameters GuessByGrain(double sm_active, double grain);

}  // namespace carma::core
