// Evaluates an estimator by comparing its answers with measured peaks. Computes the metrics used in
// the literature and in docs/inside/estimators.md.
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
  std::string name;       // model or task name
  std::string family;     // group for --by; empty: unknown
  std::int64_t batch = 0;
  std::int64_t measured_mib = 0;
  // The run ran out of memory or filled the GPU, so the measured value is only a lower bound on the
  // memory needed. Never used as ground truth.
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
  // The optimizer to assume for rows that do not name one.
  std::optional<Optimizer> optimizer;
  // Reduces layer lists to what torchsummary would print: no input shapes, no tree, no measured
  // sizes, and the batch always as the first dimension.
  bool summary_only = false;
  // Reduces layer lists to what torchinfo prints by default: three levels, with deeper modules
  // merged into the rows above them, and no input shapes. Must not be used for lists without row
  // names.
  bool torchinfo = false;
  // True to use the bytes that a dry run counted. If false, the estimators compute these bytes from
  // their rules instead.
  bool exact = false;
};

// layers: one model per line (docs/use/layer-lists.md), plain or gzip. measured: CSV with the
// columns model, batch, measured_mib and optionally censored, optimizer, precision, family. Returns
// kInvalid with the location if a file is malformed or no measurement has a layer list.
Result<DataSet> ReadDataSet(const std::string& layers, const std::string& measured,
                            const ReadOptions& options);
// Reads a catalogue of tasks: CSV with workload_id, batch_size, gpus, memory_mib_run60,
// memory_mib_thesis, memory_mib_rad2 and summary_file, which names a file in `summaries`. The
// memory is taken from the first of the three memory columns that has a value. Tasks that differ
// only in their number of epochs (same summary, batch and memory) count once. Fails like
// ReadDataSet(), and also if a summary cannot be read.
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
  std::size_t runs = 0;        // answered and not censored; the errors below cover only these
  std::size_t unanswered = 0;  // not censored and not answered
  std::size_t censored = 0;
  std::size_t censored_answered = 0;    // censored runs with an answer
  std::size_t censored_above_card = 0;  // censored runs predicted at or above `card_mib`
  double mean_error = 0;                // MAPE
  double median_error = 0;
  double p90_error = 0;                         // 90th percentile of the errors
  double under = 0, under_5 = 0, under_10 = 0;  // predicted too low by more than 0, 5 or 10 %
  double over = 0;                              // mean of max(0, predicted / measured - 1)
  double same_1gib = 0, same_8gib = 0;          // prediction and measurement are in the same class
  double covered = 0;                           // measured value is at most the bound
  double bound_over = 0;                        // mean of max(0, bound / measured - 1)
};
Score ScoreOf(std::span<const Outcome> outcomes, std::int64_t card_mib);

// A run's group and kind. The evaluation leaves out one group at a time.
struct LeftOut {
  std::string group;
  std::string kind = {};  // runs of one kind are predicted about equally well
};

// Corrects each run's answer with factors learned from the runs of all other groups. The point's
// factor is the median of measured / point. The bound's factor is the conformal quantile of
// measured / bound at `coverage` over the runs of the same kind. If that kind has too few runs, the
// bound is instead the uncorrected point times the quantile of measured / point over the runs of
// every kind, with the margin (factor - 1) doubled. A run has no answer if there is no other group.
// parts: one per outcome.
std::vector<Outcome> LeaveOut(std::span<const Outcome> outcomes, const std::vector<LeftOut>& parts,
                              double coverage);

// The accuracy of a classifier at one class width. Precision, recall and F1 are averaged over the
// classes that occur (macro average), so a rare class counts as much as a common class.
struct ClassScore {
  std::int64_t width_mib = 0;
  std::size_t runs = 0;
  double accuracy = 0, precision = 0, recall = 0, f1 = 0;
  std::vector<int> classes;                         // measured or predicted classes, ascending
  std::vector<std::vector<std::size_t>> confusion;  // [measured][predicted], indices as in classes
};
// One score for each class width in the answers, finest first. Empty if no answer has classes.
std::vector<ClassScore> ClassScoresOf(std::span<const Outcome> outcomes);

}  // namespace carma::estimate
