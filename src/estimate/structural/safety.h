// How far a run may exceed the structural estimate.
#pragma once

namespace carma::estimate {

// The basis of the estimate. Each has its own distribution of errors.
enum class Evidence {
  kExactBytes,  // a dry run counted the kept bytes
  kCompared,    // the rules, with input shapes, over kinds of modules that several families share
  kShapes,      // the same over layers alone, without the modules they stand in
  kUncompared,  // 16 bits, or bytes counted in them
  // Several kinds of modules of its own, whose code has no rows: one of them an attention, or none.
  kOwnAttention,
  kOwnBlocks,
  kText,     // the rules, outputs only (torchsummary)
  kPartial,  // blocks as one row, or no shapes at all
  kTotals,   // most of the model in such rows: what the summary adds up below them
};

// (measured - context) / (predicted - context) is at most this for so many (0.5..0.999) of the
// runs: docs/inside/estimators.md, section "Bound". At least 1; between the tabled coverages on a
// straight line.
double ShippedFactor(Evidence evidence, double coverage);

}  // namespace carma::estimate
