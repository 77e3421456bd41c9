// estimate evaluate --runs: compares the closed form for transformers with tables of measured runs.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/command.h"

namespace carma::estimate {
struct Score;
}

namespace carma::cli {

struct RunsFlags {
  std::vector<std::string> runs;    // files
  std::vector<std::string> models;  // files
  std::string by;  // comma-separated fields of estimate::FieldOf; empty: one group for all runs
  std::string leave_out;  // fields whose groups are left out in turn
  bool rows = false;
  double coverage = 0.95;
};

// Reads, estimates and prints; errors go to the context.
void EvaluateRuns(Context& context, const RunsFlags& flags);

// The JSON of a score in `estimate evaluate --json`.
base::Json ScoreJson(const estimate::Score& score);

}  // namespace carma::cli
