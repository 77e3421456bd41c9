// Whether predictions of memory, SM activity and slowdown are still right, per method, over the
// last finished tasks. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/values/ids.h"
#include "report/run.h"

namespace carma::daemon {

class ForecastDrift {
 public:
  // The last kLast tasks of a method count; fewer than kLeast are not judged.
  static constexpr std::size_t kLast = 40;
  static constexpr std::size_t kLeast = 8;

  // Records a finished task; memory stated by its user is no prediction and is ignored. coverage:
  // the share of promises that should be kept (estimate.coverage; 0: the most likely value is
  // promised, which half of the tasks exceed). Returns a sentence about a new drift (the last, if
  // several); empty: no new drift.
  std::string Take(const core::TaskRecord& record, double coverage);

  // Current drifts, a sentence each, by quantity and method. Memory drifts when a method breaks
  // more promises than chance explains once in a thousand times, until it is once in a hundred; or
  // while half of its tasks needed less than half of the prediction. SM activity and slowdown,
  // which are not promised, drift while half of the tasks were above 1.5 times the prediction, or
  // half below 1 / 1.5 of it.
  std::vector<std::string> Sentences() const;

 private:
  struct Method {
    std::deque<report::Forecast> last;
    std::string sentence;  // empty: it does not drift
  };
  static std::string JudgeMemory(const Method& method, double coverage);

  std::map<std::pair<std::string, std::string>, Method> methods_;  // by quantity and name
};

// Probability that at least `least` of `count` independent events with this chance occur.
double ChanceOfAtLeast(std::size_t least, std::size_t count, double chance);

}  // namespace carma::daemon
