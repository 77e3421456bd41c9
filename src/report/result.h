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

// Returns one line. For a single case, the line gives the duration and GPU usage. For several, it
// says how much sooner the fastest other case finishes, compared with the first, and at what cost.
// Replays (equal labels) count as one case. Empty if there are no runs. Labels are not made
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
