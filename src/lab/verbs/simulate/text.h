// What simulated runs came to, one row per policy.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "lab/verbs/simulate/plan.h"
#include "report/metrics.h"
#include "report/report.h"

namespace carma::cli {

// All runs of one policy, in order of seeds.
struct SimOutcome {
  SimPolicy policy;
  std::vector<report::Metrics> runs;  // at least one
};

// The first policy is what the others are compared with; the runs carry the bounds of the load. On
// a screen that is too narrow for all columns they stand in two tables.
std::string SimTable(std::span<const SimOutcome> outcomes, const Screen& screen);

}  // namespace carma::cli
