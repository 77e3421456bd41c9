// Whether the server's predictions of memory, SM activity and slowdown still come true, method by
// method, over the last tasks that have ended. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/values/task.h"
#include "report/run.h"

namespace carma::daemon {

class ForecastDrift {
 public:
  // So many of a method count, the last ones; fewer than kLeast say nothing.
  static constexpr std::size_t kLast = 40;
  static constexpr std::size_t kLeast = 8;

  // Takes a task that has ended; memory that its user stated is no prediction and is passed over.
  // coverage: the share of promises that should be kept (estimate.coverage; 0: the most likely
  // value is promised, which half of the tasks exceed). Returns what drifts from now on, one
  // sentence, of several the last; empty: nothing new does.
  std::string Take(const core::TaskRecord& record, double coverage);

  // What drifts now, a sentence each, by quantity and method. Memory drifts from when more of a
  // method's promises are broken than one time in a thousand by chance, until it is one in a
  // hundred; or while half of its tasks needed less than half of what was predicted. SM activity
  // and slowdown, of which nothing is promised, while half of the tasks were above 1.5 times what
  // was predicted, or half below 1 / 1.5 of it.
  std::vector<std::string> Sentences() const;

 private:
  struct Method {
    std::deque<report::Forecast> last;
    std::string sentence;  // empty: it does not drift
  };
  static std::string JudgeMemory(const Method& method, double coverage);

  std::map<std::pair<std::string, std::string>, Method> methods_;  // by quantity and name
};

// Chance that at least `least` of `count` come about, each by itself with this chance.
double ChanceOfAtLeast(std::size_t least, std::size_t count, double chance);

}  // namespace carma::daemon
