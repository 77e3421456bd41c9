// What a run came to, said to people who read no tables.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/metrics.h"
#include "report/report.h"

namespace carma::report {

// A policy against another with the same seeds, run by run: -0.25 is a quarter less. Noise that
// both share cancels, so this tells more than the difference of two means.
struct Change {
  Estimated relative;
  // Less than twice its own standard error: the difference says nothing. False for single runs,
  // whose noise nobody knows.
  bool within_noise = false;
};
// As many values as references, at least one.
Change ChangeOf(std::span<const double> values, std::span<const double> reference);

// Tasks of a run that did not succeed.
std::int64_t Failed(const Metrics& metrics);

// One sentence without a line end: of one run how long it took and how it used the GPUs; of several
// how much earlier the best of the others ends than the first, and at which price; empty without
// runs. Replays (equal labels) are one. Labels are as they are, not fit for a terminal.
std::string ResultSentence(std::span<const Metrics> runs);

// The numbers that are worth a large print: total time, completion, slowdown, energy, crashes.
struct Headline {
  std::string name;
  std::string value;
  std::string change;  // against the first case, "-24 %"; empty: none
};
// Of the run that ResultSentence() is about.
std::vector<Headline> Headlines(std::span<const Metrics> runs);

}  // namespace carma::report
