// Translates a scenario's lines into events for the core.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/scenario/clause.h"
#include "tests/scenario/scenario.h"
#include "tests/scenario/scenario_world.h"

namespace carma::sim {

// What the core has reported about tasks so far.
struct SeenTasks {
  std::map<core::TaskId, int> attempt;
  std::map<core::TaskId, std::vector<core::Placement>> placed;
  std::map<core::TaskId, std::pair<core::TaskState, core::QueueKind>> state;
};

// Reads the words of a `sharing` clause, which describe how an attempt shares its GPUs.
core::Sharing SharingOf(ClauseReader& in);
// Reads the option since=TIME.
core::Time Since(ClauseReader& in);

class ScenarioEvents {
 public:
  // Some clauses also change `world`. All arguments must outlive this object.
  ScenarioEvents(const ScenarioShell& shell, ScenarioWorld& world, SeenTasks& seen)
      : shell_(shell), world_(world), seen_(seen) {}

  // Returns the clause's events. Errors are reported to `in`.
  std::vector<core::Event> Of(const Clause& clause, ClauseReader& in);
  // Returns the event with the task's estimate.
  core::EstimateReady Answer(core::TaskId id) const;
  // True if a later line gives the task's estimate.
  bool AnswersLater(core::TaskId id) const { return later_.contains(id); }

 private:
  std::vector<core::Event> Submit(ClauseReader& in);
  std::vector<core::Event> Reserve(const std::string& verb, ClauseReader& in);
  std::vector<core::Event> Edit(core::TaskId id, ClauseReader& in);
  std::vector<core::Event> Use(const Clause& clause, ClauseReader& in);
  std::vector<core::Event> Cores(const Clause& clause, ClauseReader& in);
  std::vector<core::Event> Started(core::TaskId id, ClauseReader& in);
  std::vector<core::Event> Exit(core::TaskId id, ClauseReader& in);
  core::Dependency Depends(core::TaskId id, core::DependencyKind kind) const;
  std::optional<core::Estimate> Given(core::TaskId id) const;

  const ScenarioShell& shell_;
  ScenarioWorld& world_;
  SeenTasks& seen_;
  std::set<core::TaskId> later_;
  std::map<core::TaskId, std::optional<std::int64_t>> need_mib_;
  // Predicted memory requirements of submitted tasks. Tasks without a prediction have no entry.
  std::map<core::TaskId, std::int64_t> likely_mib_;
  std::map<core::TaskId, core::KindId> kind_;
  std::map<core::TaskId, core::Profile> profile_;
  std::map<std::string, std::uint32_t> uids_;  // UIDs of the named users
  std::vector<core::ReservedPeriod> booked_;
};

}  // namespace carma::sim
