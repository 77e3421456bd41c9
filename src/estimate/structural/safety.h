// How far a run may exceed the structural estimate.
#pragma once

#include <cstddef>

#include "model/layers.h"

namespace carma::estimate {

// The basis of an estimate. Each basis has its own distribution of errors.
enum class Evidence {
  kExactBytes,  // a dry run counted the kept bytes
  kCompared,    // rules with input shapes, over kinds of modules that several families share
  kShapes,      // rules with input shapes, over layers without the modules around them
  kUncompared,  // 16-bit training, or bytes counted in 16 bits
  // The model has several module types of its own, whose code has no rows. One of these types is an
  // attention (kOwnAttention), or none is (kOwnBlocks).
  kOwnAttention,
  kOwnBlocks,
  kText,     // rules with output shapes only (torchsummary)
  kPartial,  // blocks printed as one row, or no shapes at all
  kTotals,   // most of the model is in blocks: totals below the summary are used
};

// The upper limit of (measured - context) / (predicted - context) for the share `coverage`
// (0.5..0.999) of the runs (docs/inside/estimators.md, section "Bound"). At least 1; interpolated
// linearly between the coverages in the table.
double ShippedFactor(Evidence evidence, double coverage);

// ---- modules with which the structural estimator was never compared ----

// Number of module types in the list (by class name, containers included) that are neither
// PyTorch's own nor shared by measured families (data/estimators/modules.txt). These modules may
// have code of their own in addition to their rows.
std::size_t UnfamiliarModules(const model::LayerList& list);
// Whether one of these modules is an attention, by its name.
bool HasUnfamiliarAttention(const model::LayerList& list);

}  // namespace carma::estimate
