// A program's progress, as shown by its output.
#pragma once

#include <optional>
#include <string_view>

namespace carma::task {

enum class Phase {
  kOther,     // unknown, or not training: a compiler, a loading bar
  kDownload,  // a download, and nothing else has been seen so far
  kTrain,
  kEval,  // a validation, a test, a sanity check
};
std::string_view ToText(Phase phase);  // "other", "download", "train", "eval"

// The counters describe one loop, which is often one epoch. `run_fraction` describes the whole run.
// All numbers are finite, and only `loss` may be negative.
struct Progress {
  Phase phase = Phase::kOther;
  std::string_view unit;  // of the loop: "step", "iter", "epoch", …; empty: nothing was recognised
  std::optional<double> done;   // loop counter
  std::optional<double> total;  // at least 1, and at least `done`
  std::optional<double> rate_per_s;
  std::optional<double> eta_s;         // as printed
  std::optional<double> loss;          // the latest training loss
  std::optional<double> run_fraction;  // 0..1
  std::optional<double> run_left_s;    // from the printed rates; evaluations are not included
  std::optional<double> epoch;         // the current epoch, counted from 1

  bool found() const { return done.has_value(); }
  std::optional<double> fraction() const;  // done/total
  friend bool operator==(const Progress&, const Progress&) = default;
};

}  // namespace carma::task
