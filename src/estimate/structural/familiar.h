// Finds modules with which the structural estimator was never compared.
#pragma once

#include <cstddef>

#include "model/layers.h"

namespace carma::estimate {

// Number of kinds of modules in the list (by class name, containers included) that are neither
// PyTorch's own nor shared by measured families (data/estimators/modules.txt). Such modules may
// have code of their own besides their rows.
std::size_t UnfamiliarModules(const model::LayerList& list);
// Whether one of these modules is an attention, by its name.
bool HasUnfamiliarAttention(const model::LayerList& list);

}  // namespace carma::estimate
