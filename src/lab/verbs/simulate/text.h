// Prints the results of simulated runs, one row per policy.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "lab/verbs/simulate/experiment.h"
#include "report/metrics.h"
#include "report/report.h"

namespace carma::cli {

// All runs of one policy, ordered by seed.
struct SimOutcome {
  SimPolicy policy;
  std::vector<report::Metrics> runs;  // at least one
};

// True if no task ran in any run of the policy.
bool NoTaskRan(const SimOutcome& outcome);

// Compares each policy with the first one and with the lower bounds of the load, which are stored
// in the runs. On a narrow screen, the columns are split into two tables.
std::string SimTable(std::span<const SimOutcome> outcomes, const Screen& screen);

}  // namespace carma::cli
