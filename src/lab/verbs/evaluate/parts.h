// The parts of `estimate evaluate`, which share its flags.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/command.h"
#include "estimate/calibration.h"
#include "estimate/evaluate.h"

namespace carma::cli {

// The usable memory of an A100 with 40 GiB. A run that did not fit should be predicted above this
// value.
inline constexpr std::int64_t kUsualCardMib = 39'500;

struct EvaluateFlags {
  std::string layers, measured, catalogue, summaries;
  std::vector<std::string> runs;    // tables of measured runs
  std::vector<std::string> models;  // tables of the sizes of their models
  std::string estimators;
  std::string optimizer;  // default for rows without one
  std::string weights;    // folder with the networks' weights; empty: the shipped ones
  std::string calibrate;  // family whose runs calibrate the site's constants, or "each"
  bool summary_only = false;
  bool torchinfo = false;
  bool exact = false;
  std::string by;         // comma-separated fields: "family" or, with --runs, those of FieldOf
  std::string leave_out;  // fields; each group is predicted from the other groups only
  bool rows = false;
  double coverage = 0.95;
  std::int64_t card_mib = kUsualCardMib;
};

// The JSON of a score in `estimate evaluate --json`.
base::Json ScoreJson(const estimate::Score& score);

// The following functions print results and report errors to the context.

// --runs: compares the closed form for transformers with tables of measured runs. --by and
// --leave-out: fields of estimate::FieldOf.
void EvaluateRuns(Context& context, const EvaluateFlags& flags);
// --runs with batch sweeps: predicts each run from related runs.
void EvaluateSweeps(Context& context, const EvaluateFlags& flags);

// The --calibrate argument that selects each family in turn.
inline constexpr const char* kEachFamily = "each";

// The estimator's predictions for all runs. site: learned constants; null: the shipped ones.
std::vector<estimate::Outcome> AnswersOf(const estimate::Estimator& estimator,
                                         const estimate::DataSet& set, double coverage,
                                         const estimate::Site* site);

// Learns from that family's runs; each batch counts as a separate task. Returns kInvalid if the
// family has no runs.
Result<estimate::Site> LearnFrom(const estimate::DataSet& set, const std::string& family);

// --calibrate: one row per family, with the errors on its own runs and on all others, for the
// shipped and for the calibrated constants.
void EvaluateCalibration(Context& context, const estimate::DataSet& set, double coverage);

}  // namespace carma::cli
