// The parts of `estimate evaluate`, which share its flags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/command.h"
#include "cli/table.h"
#include "estimate/calibration.h"
#include "estimate/evaluate.h"

namespace carma::cli {

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
  // Usable memory of the measured GPU; by default that of an A100 with 40 GiB. A run that did not
  // fit should be predicted above this value.
  std::int64_t card_mib = 39'500;
};

// An estimator's accuracy for all runs or for one group of them.
struct Evaluated {
  std::string estimator;
  std::string family;  // the group; empty: all runs
  estimate::Score score;
  std::vector<estimate::ClassScore> classes = {};
  std::string memory = {};  // with --runs: which memory was measured
  std::string asked = {};   // with batch sweeps: what was predicted
};

// The JSON of a score in `estimate evaluate --json`.
base::Json ScoreJson(const estimate::Score& score);
// The JSON of `estimate evaluate --json`. runs: the number of runs compared. without_model: the
// number of other runs, whose model is missing.
base::Json EvaluationJson(const std::vector<Evaluated>& all, std::size_t runs,
                          std::size_t without_model, double coverage);
// Returns a table row: `first`, the group, the number of runs, the shares in percent, and the
// number of runs without a prediction. A share that does not apply is empty and shown as "-".
std::vector<Cell> ScoreRow(const std::string& first, const Evaluated& each,
                           const std::vector<std::optional<double>>& shares);

// The following functions print results and report errors to the context.

// Implements --runs: compares the closed-form estimate for transformers with tables of measured
// runs. --by and --leave-out accept the fields that estimate::FieldOf knows. In tables of batch
// sweeps, each run is predicted from related runs.
void EvaluateRuns(Context& context, const EvaluateFlags& flags);

// The --calibrate argument that selects each family in turn.
inline constexpr const char* kEachFamily = "each";

// The estimator's predictions for all runs. site: learned constants; null means the shipped ones.
std::vector<estimate::Outcome> AnswersOf(const estimate::Estimator& estimator,
                                         const estimate::DataSet& set, double coverage,
                                         const estimate::Site* site);

// Learns constants from the runs of `family`; each batch size counts as a separate task. Returns
// kInvalid if the family has no runs.
Result<estimate::Site> LearnFrom(const estimate::DataSet& set, const std::string& family);

// Implements --calibrate: one row per family, with the errors of the shipped and of the learned
// constants on the family's own runs and on all other runs.
void EvaluateCalibration(Context& context, const estimate::DataSet& set, double coverage);

}  // namespace carma::cli
