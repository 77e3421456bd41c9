// Estimates a training run's SM activity from the model summary, before the task runs for the first
// time (dissertation, section 7.1; docs/inside/estimators.md, "Activity before the first run").
#pragma once

#include <cstdint>
#include <optional>

#include "model/layers.h"

namespace carma::estimate {

// Multiply-adds in convolutions and linear layers during the forward pass of one sample, computed
// from parameters and output sizes. Empty if there is no such layer, or if the summary prints a
// block as a single row.
std::optional<double> MultiplyAdds(const model::LayerList& list);

struct ActivityGuess {
  double sm_active = 0;   // 0..1
  double mean_error = 0;  // in leave-one-family-out cross-validation
};
// Works for convolutional networks and networks of linear layers whose summary prints every layer.
// Empty for any other network.
std::optional<ActivityGuess> GuessActivity(const model::LayerList& list);

// The kernel size (core::GrainOf) of a training run with batch size `batch`. Empty unless the
// network is convolutional, all its layers are printed, and the batch is known.
std::optional<double> GrainOf(const model::LayerList& list, std::optional<std::int64_t> batch);

}  // namespace carma::estimate
