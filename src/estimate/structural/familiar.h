// Which modules the structural estimator was compared with.
#pragma once

#include <cstddef>

#include "model/layers.h"

namespace carma::estimate {

// Kinds of modules in the list (by the names of their classes, containers included) that are
// neither PyTorch's own nor shared by measured families (data/estimators/modules.txt): what code
// they hold besides their rows is their own.
std::size_t UnfamiliarModules(const model::LayerList& list);
// One of them is an attention, by its name.
bool HasUnfamiliarAttention(const model::LayerList& list);

}  // namespace carma::estimate
