// The kernel size of a training, from its model summary.
#pragma once

#include <cstdint>
#include <optional>

#include "model/layers.h"

namespace carma::estimate {

// core::GrainOf for a convolutional network whose layers are all printed, at `batch` samples. Empty
// for any other, and where the batch is not known.
std::optional<double> GrainOf(const model::LayerList& list, std::optional<std::int64_t> batch);

}  // namespace carma::estimate
