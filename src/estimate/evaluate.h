// Evaluates an estimator: compares its answers with measured peaks, and computes the figures that
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
  std::string family;     // what --by groups by; empty: not known
  std::int64_t batch = 0;
  std::int64_t measured_mib = 0;
  // The run ended for lack of memory or filled the card, so its need is only known to be large.
  // Never used as ground truth.
  bool censored = false;
  int gpus = 1;
  std::optional<Optimizer> optimizer;
  std::optional<Precision> precision;
  std::optional<double> sm_active;  // alone on its GPU, as measured
};

// Models and their measured trainings.
struct DataSet {
  std::vector<model::LayerList> models;
  std::vector<Run> runs;
  std::size_t without_model = 0;  // rows of the measurements whose model has no layer list
};

struct ReadOptions {
  // Optimizer for rows that do not name one.
  std::optional<Optimizer> optimizer;
  // Reduces layer lists to what torchsummary would print: no input shapes, no tree, nothing
  // measured, and the first dimension is always the batch.
  bool summary_only = false;
  // Reduces layer lists to what torchinfo prints by default: three levels, deeper modules as one
  // row, no input shapes. Not for lists whose rows have no names.
  bool torchinfo = false;
  // False: bytes counted by a dry run are dropped, and the rules are used.
  bool exact = false;
};

// layers: one model per line (docs/use/layer-lists.md), plain or gzip. measured: CSV with the
// columns model, batch, measured_mib and optionally censored, optimizer, precision, family. Errors:
// kInvalid with the place; kInvalid if no row of the measurements has a layer list.
Result<DataSet> ReadDataSet(const std::string& layers, const std::string& measured,
                            const ReadOptions& options);
// A catalogue of tasks: CSV with workload_id, batch_size, gpus, memory_mib_run60,
// memory_mib_thesis, memory_mib_rad2 (the first that is given is used) and summary_file, a file in
// `summaries`. Tasks that differ only in their number of epochs (same summary, batch and memory)
// count once. Errors: as above; a summary that cannot be read is an error too.
Result<DataSet> ReadCatalogue(const std::string& catalogue, const std::string& summaries,
                              const ReadOptions& options);

// An estimator's answer for one run.
struct Outcome {
  std::int64_t measured_mib = 0;
  bool censored = false;
  std::optional<Answer> answer;  // empty: no answer for such a task
};

// Shares are 0..1. An error is |predicted / measured - 1|.
struct Score {
  std::size_t runs = 0;        // with an answer and not censored: what everything below is about
  std::size_t unanswered = 0;  // not censored, without an answer
  std::size_t censored = 0;
  std::size_t censored_answered = 0;    // of the censored: with an answer
  std::size_t censored_above_card = 0;  // of the censored: predicted at or above `card_mib`
  double mean_error = 0;                // MAPE
  double median_error = 0;
  double p90_error = 0;                         // nine of ten errors are at most this
  double under = 0, under_5 = 0, under_10 = 0;  // predicted too low, by more than 0, 5, 10 %
  double over = 0;                              // mean of max(0, predicted / measured - 1)
  double same_1gib = 0, same_8gib = 0;  // prediction and measurement in one class of that width
  double covered = 0;                   // measured at most the bound
  double bound_over = 0;                // mean of max(0, bound / measured - 1)
};
Score ScoreOf(std::span<const Outcome> outcomes, std::int64_t card_mib);

// The group that a run belongs to when groups are left out in turn.
struct LeftOut {
  std::string group;
  std::string kind = {};  // runs of one kind are equally well known
};

// Returns the same runs, each answered from the other groups only. The point is corrected by their
// median of measured / point, the bound by the conformal quantile for `coverage` of measured /
// bound of runs of its kind. If the other groups have few runs of its kind, the bound is the point
// times their quantile of measured / point, with twice the distance above 1. parts: one per
// outcome. If there is no other group, a run has no answer.
std::vector<Outcome> LeaveOut(std::span<const Outcome> outcomes, const std::vector<LeftOut>& parts,
                              double coverage);

// The accuracy of a classifier, for one width of classes. Precision, recall and F1 are means over
// the classes that occur (macro), so that a rare class counts as much as a common one.
struct ClassScore {
  std::int64_t width_mib = 0;
  std::size_t runs = 0;
  double accuracy = 0, precision = 0, recall = 0, f1 = 0;
  std::vector<int> classes;                         // that occur, measured or predicted; ascending
  std::vector<std::vector<std::size_t>> confusion;  // [measured][predicted], indices as in classes
};
// One result for every class width in the answers, finest first; none if no answer has classes.
std::vector<ClassScore> ClassScoresOf(std::span<const Outcome> outcomes);

}  // namespace carma::estimate
