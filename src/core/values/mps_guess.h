// Interference parameters of a task that was not measured. Pure.
#pragma once

#include <optional>

namespace carma::core {

// Known properties of a task that was never measured.
struct TaskTraits {
  bool transformer = false;  // else a convolutional network
  std::optional<int> batch_size;
  std::optional<int> layers;  // with weights: convolutions and linear layers
  friend bool operator==(const TaskTraits&, const TaskTraits&) = default;
};

// s and p of slowdown_i = 1 + s_i * sum of its neighbours' p_j.
struct MpsParameters {
  double sensitivity = 0;
  double pressure = 0;
  friend bool operator==(const MpsParameters&, const MpsParameters&) = default;
};

// sm_active: u, of the task alone, 0..1.
// Under MPS many small kernels lose and few large ones win. The kernel size of a convolutional
// network is judged by its batch per layer, g = (batch / 128) * (60 / layers):
//   s = 0.784 * u * g^-0.729,  p = 1.476 * u * g^0.543.
// Without the number of layers: s = 0.787 * sqrt(u) * (128 / batch)^0.740,
// p = 1.757 * u^2 * (batch / 128)^0.658; without the batch size, a batch of 64. Transformers:
// s = 0.485, p = 0.649 * u. Fitted on one measured run of 58 tasks of ten architectures;
// docs/inside/simulator.md has the errors for architectures left out.
MpsParameters GuessMps(double sm_active, const TaskTraits& traits);

// g of a convolutional network with known batch and layers, clamped to the fitted range. Only
// guesses by g were right for architectures outside the fit.
std::optional<double> GrainOf(const TaskTraits& traits);
MpsParameters GuessByGrain(double sm_active, double grain);

}  // namespace carma::core
