// Guesses the SM activity of a training that has not run yet from its model summary (dissertation,
// section 7.1; docs/inside/estimators.md, "Activity before the first run").
#pragma once

#include <cstdint>
#include <optional>

#include "model/layers.h"

namespace carma::estimate {

// Multiply-adds of a forward pass of one sample in convolutions and linear layers, from their
// parameters and output sizes. Empty if there is no such layer or if blocks are printed as one row.
std::optional<double> MultiplyAdds(const model::LayerList& list);

struct ActivityGuess {
  double sm_active = 0;   // 0..1
  double mean_error = 0;  // of these guesses, for families left out in turn
};
// Supports networks of convolutions, or of linear layers only, whose layers are all printed. Empty
// for any other network.
std::optional<ActivityGuess> GuessActivity(const model::LayerList& list);

// The kernel size of a training (core::GrainOf) with `batch` samples, for a convolutional network
// whose layers are all printed. Empty for any other network, or if the batch is unknown.
std::optional<double> GrainOf(const model::LayerList& list, std::optional<std::int64_t> batch);

}  // namespace carma::estimate
