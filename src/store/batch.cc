#include "store/batch.h"

#include <algorithm>

namespace carma::store {
namespace {

bool None(bool asked) {
  return !asked;
}
template <class Rows>
bool None(const Rows& rows) {
  return rows.empty();
}

using Passing = std::set<core::TaskId>;

// Returns true if a power failure may lose these changes without harm. A task waiting for its first
// start is simply estimated again, so a submission waits for the disk only when it is accepted. A
// power failure ends every attempt, so attempt changes without an event, such as the sharing mode
// or a memory peak, may be lost too.
bool KnownAgainAfterRestart(const std::map<core::TaskId, RecordRow>& records,
                            const Passing& passing) {
  return std::ranges::all_of(records, [&](const auto& each) {
    const core::TaskRecord& record = each.second.record;
    return (record.state == core::TaskState::kQueued && record.attempt->number == 0) ||
           record.state == core::TaskState::kLaunching ||
           record.state == core::TaskState::kRunning || passing.contains(record.id);
  });
}
bool KnownAgainAfterRestart(const std::vector<StoredEvent>& events, const Passing& passing) {
  return std::ranges::all_of(events, [&](const StoredEvent& event) {
    return event.task && passing.contains(*event.task);
  });
}
bool KnownAgainAfterRestart(const std::vector<EndedAttempt>& attempts, const Passing& passing) {
  return std::ranges::all_of(
      attempts, [&](const EndedAttempt& attempt) { return passing.contains(attempt.task); });
}
bool KnownAgainAfterRestart(const std::vector<Forecast>&, const Passing&) {
  return true;
}
// Observations cannot be recovered after a restart, so storing them may be delayed only for tasks
// that a power failure would end anyway.
bool KnownAgainAfterRestart(const std::vector<task::Observation>& observations,
                            const Passing& passing) {
  return std::ranges::all_of(
      observations, [&](const task::Observation& each) { return passing.contains(each.task); });
}
template <class Rows>
bool KnownAgainAfterRestart(const Rows& rows, const Passing&) {
  return None(rows);
}

}  // namespace

bool Batch::Empty() const {
  return std::apply([](const auto&... kinds) { return (None(kinds) && ...); }, Kinds(*this));
}

Durability Batch::Urgency(const std::set<core::TaskId>& passing) const {
  const bool later = std::apply(
      [&](const auto&... kinds) { return (KnownAgainAfterRestart(kinds, passing) && ...); },
      Kinds(*this));
  return later ? Durability::kLater : Durability::kNow;
}

}  // namespace carma::store
