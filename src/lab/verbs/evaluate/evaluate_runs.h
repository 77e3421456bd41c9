// estimate evaluate --runs: the closed form for transformers beside tables of measured runs.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/command.h"

namespace carma::estimate {
struct Score;
}

namespace carma::cli {

struct RunsFlags {
  std::vector<std::string> runs;    // files
  std::vector<std::string> models;  // files
  std::string by;         // comma-separated fields of estimate::FieldOf; empty: everything together
  std::string leave_out;  // likewise: each group as the others alone would have answered
  bool rows = false;
  double coverage = 0.95;
};

// Reads, asks and prints; errors go to the context.
void EvaluateRuns(Context& context, const RunsFlags& flags);

// What `estimate evaluate --json` says of any score, under the same keys.
base::Json ScoreJson(const estimate::Score& score);

}  // namespace carma::cli
