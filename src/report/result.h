// The result of a run in words, for people who do not read tables.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/lines.h"
#include "report/metrics.h"
#include "report/report.h"

namespace carma::report {

// Tasks of a run that did not succeed.
std::int64_t Failed(const Metrics& metrics);

// One sentence without line end: for one case its duration and use of the GPUs; for several, how
// much earlier the best of the others ends than the first, and at what cost; empty without runs.
// Replays (equal labels) count as one. Labels are not made printable.
std::string ResultSentence(std::span<const Metrics> runs);

// The most important numbers: total time, completion, slowdown, energy, crashes.
struct Headline {
  std::string name;
  std::string value;
  std::string change;  // against the first case, "-24 %"; empty: none
};
// The headlines for the run that ResultSentence() is about.
std::vector<Headline> Headlines(std::span<const Metrics> runs);

}  // namespace carma::report
