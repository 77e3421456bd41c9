// estimate evaluate --calibrate: a server's lessons from one family, and their effect on
// predictions for the others.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "estimate/calibration.h"
#include "estimate/evaluate.h"

namespace carma::cli {

// The argument for calibrating with each family in turn.
inline constexpr const char* kEachFamily = "each";

// The estimator's answers for all runs. site: learned constants; null: the shipped ones.
std::vector<estimate::Outcome> AnswersOf(const estimate::Estimator& estimator,
                                         const estimate::DataSet& set, double coverage,
                                         const estimate::Site* site);

// Learns from the runs of that family, each batch as a separate task. Errors: kInvalid if it has no
// run.
Result<estimate::Site> LearnFrom(const estimate::DataSet& set, const std::string& family);

// Prints one row per family: the errors of its own runs and of all others, as shipped and
// calibrated. Errors go to the context.
void EvaluateCalibration(Context& context, const estimate::DataSet& set, double coverage);

}  // namespace carma::cli
