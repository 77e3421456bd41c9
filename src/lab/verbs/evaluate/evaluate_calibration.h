// estimate evaluate --calibrate: how predictions for other families change after a server has
// learned from one family.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "estimate/calibration.h"
#include "estimate/evaluate.h"

namespace carma::cli {

// The argument that calibrates with each family in turn.
inline constexpr const char* kEachFamily = "each";

// The estimator's answers for all runs. site: the learned constants; null for the shipped ones.
std::vector<estimate::Outcome> AnswersOf(const estimate::Estimator& estimator,
                                         const estimate::DataSet& set, double coverage,
                                         const estimate::Site* site);

// Learns from the runs of this family, each batch as a separate task. Errors: kInvalid if the
// family has no run.
Result<estimate::Site> LearnFrom(const estimate::DataSet& set, const std::string& family);

// Prints one row per family: the errors of its own runs and of all other runs, with shipped and
// with calibrated constants. Errors go to the context.
void EvaluateCalibration(Context& context, const estimate::DataSet& set, double coverage);

}  // namespace carma::cli
