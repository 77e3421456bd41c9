// What simulated runs came to, one row per policy.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/simulate/plan.h"
#include "cli/terminal.h"
#include "report/metrics.h"
#include "report/report.h"

namespace carma::cli {

// All runs of one policy, in order of seeds.
struct SimOutcome {
  SimPolicy policy;
  std::vector<report::Metrics> runs;  // at least one
};

// A policy against another with the same seeds, run by run: -0.25 is a quarter less. Noise that
// both share cancels, so this tells more than the difference of two means.
struct Change {
  report::Estimated relative;
  // Less than twice its own standard error: the difference says nothing. False for single runs,
  // whose noise nobody knows.
  bool within_noise = false;
};
Change ChangeOf(std::span<const double> values, std::span<const double> reference);

// The first policy is what the others are compared with; the runs carry the bounds of the load.
std::string SimTable(std::span<const SimOutcome> outcomes, const Screen& screen);

}  // namespace carma::cli
