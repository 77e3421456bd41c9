// The result of a run in words, for people who do not read tables.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/lines.h"
#include "report/metrics.h"
#include "report/report.h"

namespace carma::report {

// Number of tasks that did not succeed.
std::int64_t Failed(const Metrics& metrics);

// Returns one line. For one case, it gives the duration and GPU usage. For several, it compares the
// first case with the fastest of the others: how much sooner that one finishes, and at what cost.
// Empty if there are no runs. Replays (equal labels) count as one case. Labels are not made
// printable.
std::string ResultSentence(std::span<const Metrics> runs);

// A headline number: total time, completion, slowdown, energy or crashes.
struct Headline {
  std::string name;
  std::string value;
  std::string change;  // relative to the first case, "-24 %"; empty if none
};
// The headlines of the run that ResultSentence() describes.
std::vector<Headline> Headlines(std::span<const Metrics> runs);

}  // namespace carma::report
