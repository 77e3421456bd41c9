// Checks a scenario's expectations against the core's actions and explanations.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/scenario/clause.h"
#include "tests/scenario/news.h"
#include "tests/scenario/scenario.h"

namespace carma::sim {

// Describes the first unmet expectation; empty if all were met.
using Mismatch = std::optional<std::string>;

class Expectations {
 public:
  Expectations(const ScenarioShell& shell, std::size_t gpus) : shell_(shell), gpus_(gpus) {}

  // Checks one clause. If it describes an event, marks the first matching element of `news` as
  // expected. Reports errors in the clause to `in`. wake: when the core wants to be woken next.
  Mismatch Compare(const Clause& clause, ClauseReader& in, std::vector<News>& news,
                   const std::optional<core::Time>& wake) const;

 private:
  Mismatch CompareNews(const News& news, ClauseReader& in) const;
  Mismatch CompareAsk(core::TaskId id, ClauseReader& in) const;
  Mismatch CompareStart(const core::StartTask& start, ClauseReader& in) const;
  Mismatch CompareReason(ClauseReader& in) const;
  Mismatch CompareState(ClauseReader& in) const;
  Mismatch CompareExpectedStart(std::string_view verb, ClauseReader& in) const;
  Mismatch CompareSharing(ClauseReader& in) const;
  Mismatch ComparePromised(ClauseReader& in) const;
  Mismatch CompareUnpromised(ClauseReader& in) const;
  Mismatch CompareIdle(std::string_view verb, ClauseReader& in) const;
  Mismatch CompareGpu(std::string_view verb, ClauseReader& in) const;

  const ScenarioShell& shell_;
  std::size_t gpus_;
};

}  // namespace carma::sim
