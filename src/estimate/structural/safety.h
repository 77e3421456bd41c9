// How far a run may exceed the structural estimate.
#pragma once

#include <cstddef>

#include "model/layers.h"

namespace carma::estimate {

// The basis of the estimate. Each has its own distribution of errors.
enum class Evidence {
  kExactBytes,  // a dry run counted the kept bytes
  kCompared,    // the rules, with input shapes, over kinds of modules that several families share
  kShapes,      // the same over layers alone, without the modules that contain them
  kUncompared,  // 16 bits, or bytes counted in them
  // Several module types of the model's own, whose code has no rows. kOwnAttention: one of them is
  // an attention; kOwnBlocks: none is.
  kOwnAttention,
  kOwnBlocks,
  kText,     // the rules, outputs only (torchsummary)
  kPartial,  // blocks as one row, or no shapes at all
  kTotals,   // most of the model is in such rows: from the totals below the summary
};

// The upper limit of (measured - context) / (predicted - context) for the share `coverage`
// (0.5..0.999) of the runs: docs/inside/estimators.md, section "Bound". At least 1; linear between
// the coverages in the table.
double ShippedFactor(Evidence evidence, double coverage);

// ---- modules with which the structural estimator was never compared ----

// Number of module types in the list (by class name, containers included) that are neither
// PyTorch's own nor shared by measured families (data/estimators/modules.txt). Such modules may
// have code of their own besides their rows.
std::size_t UnfamiliarModules(const model::LayerList& list);
// Whether one of these modules is an attention, by its name.
bool HasUnfamiliarAttention(const model::LayerList& list);

}  // namespace carma::estimate
