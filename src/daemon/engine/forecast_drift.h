// Checks how accurate each method's predictions of memory, SM activity and slowdown were for
// recently finished tasks. Pure.
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
  // Only each method's last kLast tasks are considered. A method with fewer than kLeast tasks is
  // not checked.
  static constexpr std::size_t kLast = 40;
  static constexpr std::size_t kLeast = 8;

  // Records a finished task. Ignores memory given by the user, which is not a prediction. coverage:
  // the share of promises that should be kept (estimate.coverage). If it is 0, the most likely
  // value is promised, so half of the tasks are expected to exceed it. Returns a sentence about the
  // last new drift that the task reveals; empty if there is none.
  std::string Take(const core::TaskRecord& record, double coverage);

  // The current drifts, one sentence each, ordered by quantity and method.
  //
  // A method that predicts memory is reported while it breaks more promises than chance can
  // explain. The report begins when the probability of that many broken promises is below 1/1000,
  // and ends when it is above 1/100. The method is also reported while half of its tasks need less
  // than half of the predicted memory.
  //
  // A method that predicts SM activity or slowdown is reported while half of its tasks are above
  // 1.5 times the prediction or half are below 1/1.5 of it.
  std::vector<std::string> Sentences() const;

 private:
  struct Method {
    std::deque<report::Forecast> last;
    std::string sentence;  // about its drift; empty if there is none
  };
  static std::string JudgeMemory(const Method& method, double coverage);

  std::map<std::pair<std::string, std::string>, Method> methods_;  // by quantity and name
};

// The probability that at least `least` of `count` independent events occur. Each event has the
// probability `chance`.
double ChanceOfAtLeast(std::size_t least, std::size_t count, double chance);

}  // namespace carma::daemon
