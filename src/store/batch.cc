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

// Nothing but tasks that were accepted and now wait: a restart finds them as submitted and asks for
// their estimates again. So one submission costs one wait for the disk, not two. Nor does how a
// launching task shares its GPUs need one: what a power failure forgets of it has ended with it.
bool KnownAgainAfterRestart(const std::map<core::TaskId, RecordRow>& records,
                            const Passing& passing) {
  return std::ranges::all_of(records, [&](const auto& each) {
    const core::TaskRecord& record = each.second.record;
    return (record.state == core::TaskState::kQueued && record.attempt->number == 0) ||
           record.state == core::TaskState::kLaunching || passing.contains(record.id);
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
// Not another one's: it comes with the end that it was learned from.
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
