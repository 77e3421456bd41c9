// Evaluates an estimator by comparing its answers with measured peaks. Computes the figures that
// the literature and docs/inside/estimators.md report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "estimate/estimator.h"
#include "model/layers.h"

namespace carma::estimate {

// One measured run.
struct Run {
  std::size_t model = 0;  // index into DataSet::models
  std::string name;       // of the model or task
  std::string family;     // --by groups by it; empty: unknown
  std::int64_t batch = 0;
  std::int64_t measured_mib = 0;
  // The run ran out of memory or filled the card, so its need is only known to be large. Never used
  // as ground truth.
  bool censored = false;
  int gpus = 1;
  std::optional<Optimizer> optimizer;
  std::optional<Precision> precision;
  std::optional<double> sm_active;  // measured alone on its GPU
};

// Models and their measured training runs.
struct DataSet {
  std::vector<model::LayerList> models;
  std::vector<Run> runs;
  std::size_t without_model = 0;  // measurements whose model has no layer list
};

struct ReadOptions {
  // Optimizer for rows that do not name one.
  std::optional<Optimizer> optimizer;
  // Reduces layer lists to what torchsummary would print: no input shapes, no tree, nothing
  // measured, and the first dimension is always the batch.
  bool summary_only = false;
  // Reduces layer lists to what torchinfo prints by default: three levels, deeper modules as one
  // row, no input shapes. Must not be used for lists whose rows have no names.
  bool torchinfo = false;
  // If false, bytes counted by a dry run are dropped and the rules are used.
  bool exact = false;
};

// layers: one model per line (docs/use/layer-lists.md), plain or gzip. measured: CSV with the
// columns model, batch, measured_mib and optionally censored, optimizer, precision, family. Errors:
// kInvalid with the place; kInvalid if no measurement has a layer list.
Result<DataSet> ReadDataSet(const std::string& layers, const std::string& measured,
                            const ReadOptions& options);
// A catalogue of tasks: CSV with workload_id, batch_size, gpus, memory_mib_run60,
// memory_mib_thesis, memory_mib_rad2 (the first that is given is used) and summary_file, a file in
// `summaries`. Tasks that differ only in their number of epochs (same summary, batch and memory)
// count once. Errors: as ReadDataSet(); an unreadable summary is an error too.
Result<DataSet> ReadCatalogue(const std::string& catalogue, const std::string& summaries,
                              const ReadOptions& options);

// An estimator's answer for one run.
struct Outcome {
  std::int64_t measured_mib = 0;
  bool censored = false;
  std::optional<Answer> answer;  // empty: no answer for this task
};

// Shares are 0..1. An error is |predicted / measured - 1|.
struct Score {
  std::size_t runs = 0;        // answered and not censored; all errors below refer to these
  std::size_t unanswered = 0;  // not censored and not answered
  std::size_t censored = 0;
  std::size_t censored_answered = 0;    // censored runs with an answer
  std::size_t censored_above_card = 0;  // censored runs predicted at or above `card_mib`
  double mean_error = 0;                // MAPE
  double median_error = 0;
  double p90_error = 0;                         // nine of ten errors are at most this
  double under = 0, under_5 = 0, under_10 = 0;  // predicted too low by more than 0, 5, 10 %
  double over = 0;                              // mean of max(0, predicted / measured - 1)
  double same_1gib = 0, same_8gib = 0;  // prediction and measurement in one class of that width
  double covered = 0;                   // measured value is at most the bound
  double bound_over = 0;                // mean of max(0, bound / measured - 1)
};
Score ScoreOf(std::span<const Outcome> outcomes, std::int64_t card_mib);

// The group of a run, for evaluations in which each group is left out once.
struct LeftOut {
  std::string group;
  std::string kind = {};  // runs of one kind are known equally well
};

// Returns the same runs, each answered from the other groups only. The point is multiplied by their
// median of measured / point. The bound is multiplied by their conformal quantile for `coverage` of
// measured / bound over runs of the same kind. If they have few runs of that kind, the bound is the
// point times their quantile of measured / point, with twice the distance above 1. parts: one per
// outcome. Without another group a run has no answer.
std::vector<Outcome> LeaveOut(std::span<const Outcome> outcomes, const std::vector<LeftOut>& parts,
                              double coverage);

// The accuracy of a classifier for one class width. Precision, recall and F1 are means over the
// classes that occur (macro), so a rare class counts as much as a common one.
struct ClassScore {
  std::int64_t width_mib = 0;
  std::size_t runs = 0;
  double accuracy = 0, precision = 0, recall = 0, f1 = 0;
  std::vector<int> classes;                         // measured or predicted classes, ascending
  std::vector<std::vector<std::size_t>> confusion;  // [measured][predicted], indices as in classes
};
// One score for every class width in the answers, finest first. Empty if no answer has classes.
std::vector<ClassScore> ClassScoresOf(std::span<const Outcome> outcomes);

}  // namespace carma::estimate
