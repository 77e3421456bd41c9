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

// Nothing but tasks that were accepted and now wait: a restart finds them as submitted and asks for
// their estimates again. So one submission costs one wait for the disk, not two. Nor does how a
// launching task shares its GPUs need one: what a power failure forgets of it has ended with it.
bool KnownAgainAfterRestart(const std::map<core::TaskId, RecordRow>& records) {
  return std::ranges::all_of(records, [](const auto& each) {
    const core::TaskRecord& record = each.second.record;
    return (record.state == core::TaskState::kQueued && record.attempt->number == 0) ||
           record.state == core::TaskState::kLaunching;
  });
}
bool KnownAgainAfterRestart(const std::vector<Forecast>&) {
  return true;
}
template <class Rows>
bool KnownAgainAfterRestart(const Rows& rows) {
  return None(rows);
}

}  // namespace

bool Batch::Empty() const {
  return std::apply([](const auto&... kinds) { return (None(kinds) && ...); }, Kinds(*this));
}

Durability Batch::Urgency() const {
  const bool later = std::apply(
      [](const auto&... kinds) { return (KnownAgainAfterRestart(kinds) && ...); }, Kinds(*this));
  return later ? Durability::kLater : Durability::kNow;
}

}  // namespace carma::store
