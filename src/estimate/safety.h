// How far above the structural estimate a run may lie.
#pragma once

namespace carma::estimate {

// What the estimate rests on. Each has its own distribution of errors.
enum class Evidence {
  kExactBytes,  // a dry run counted the kept bytes
  kShapes,      // the rules, with input shapes
  kText,        // the rules, outputs only (torchsummary)
  kPartial,     // blocks as one row, or no shapes at all
};

// Measured / predicted is at most this for so many (0.5..0.999) of the models of families that the
// constants were not fitted on: docs/estimators.md, section "Bound". At least 1.
double ShippedFactor(Evidence evidence, double coverage);

}  // namespace carma::estimate
