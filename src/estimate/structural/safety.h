// How far a run's memory can exceed the structural estimate.
#pragma once

#include <cstddef>

#include "model/layers.h"

namespace carma::estimate {

// What an estimate is based on. Each basis has its own error distribution.
enum class Evidence {
  kExactBytes,  // a dry run counted the kept bytes
  kCompared,    // rules with input shapes, for module types that several families share
  kShapes,      // rules with input shapes, for layers without their parent modules
  kUncompared,  // 16-bit training, or bytes counted in 16 bits
  // The model uses several unknown module types, and the summary has no rows for the operations in
  // their code. kOwnAttention if any of these types is an attention module, otherwise kOwnBlocks.
  kOwnAttention,
  kOwnBlocks,
  kText,     // rules with output shapes only (torchsummary); bytes counted in another precision
  kPartial,  // blocks printed as one row, or no shapes at all
  kTotals,   // most of the model is in blocks: totals below the summary are used
};

// The `coverage` quantile (0.5..0.999) of (measured - context) / (predicted - context) over all
// runs (docs/inside/estimators.md, section "Bound"). At least 1. Interpolated linearly between the
// coverages in the table.
double ShippedFactor(Evidence evidence, double coverage);

// ---- modules that no measurement of the structural estimator covers ----

// Number of module types in the list that are neither PyTorch's own nor shared by measured families
// (data/estimators/modules.txt). Types are compared by class name and include containers. Modules
// of these types may run code that no row shows.
std::size_t UnfamiliarModules(const model::LayerList& list);
// Returns true if an unfamiliar module type is an attention module, judging by its name.
bool HasUnfamiliarAttention(const model::LayerList& list);

}  // namespace carma::estimate
