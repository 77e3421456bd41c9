// estimate evaluate --calibrate: what a server would have learned from a family, and what that does
// to predictions for the other families.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "estimate/calibration.h"
#include "estimate/evaluate.h"

namespace carma::cli {

// The word that lets each family teach in turn.
inline constexpr const char* kEachFamily = "each";

// Borrows the set.
estimate::Question QuestionOf(const estimate::DataSet& set, const estimate::Run& run,
                              double coverage);

// Of the runs of that family, each batch a task of its own. Errors: kInvalid: it has no run.
base::Result<estimate::Site> LearnFrom(const estimate::DataSet& set, const std::string& family);

// One row per family: the errors of its own runs and of all others, as shipped and as it taught.
// Prints; errors go to the context.
void EvaluateCalibration(Context& context, const estimate::DataSet& set, double coverage);

}  // namespace carma::cli
