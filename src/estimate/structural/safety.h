// How far a run may exceed the structural estimate.
#pragma once

namespace carma::estimate {

// The basis of the estimate. Each has its own distribution of errors.
enum class Evidence {
  kExactBytes,  // a dry run counted the kept bytes
  kCompared,    // the rules, with input shapes, over kinds of modules that several families share
  kShapes,      // the same over layers alone, without the modules that contain them
  kUncompared,  // 16 bits, or bytes counted in them
  // Several kinds of modules of the model's own, whose code has no rows; one of them is an
  // attention (kOwnAttention), or none is.
  kOwnAttention,
  kOwnBlocks,
  kText,     // the rules, outputs only (torchsummary)
  kPartial,  // blocks as one row, or no shapes at all
  kTotals,   // most of the model is in such rows: from the totals below the summary
};

// (measured - context) / (predicted - context) is at most this for the share `coverage`
// (0.5..0.999) of the runs: docs/inside/estimators.md, section "Bound". At least 1; linear between
// the coverages in the table.
double ShippedFactor(Evidence evidence, double coverage);

}  // namespace carma::estimate
