#include "core/queue.h"

namespace carma::core {

QueueKey KeyOf(const TaskRecord& task) {
  return {.less_priority = -task.request.priority,
          .since = task.queue == QueueKind::kRecovery ? task.queued_since : Time{},
          .task = task.id};
}

void Queue::Put(const TaskRecord& task, Place place, Time due) {
  ++changes_;
  Remove(task.id);
  const Entry entry{.place = place, .kind = task.queue, .key = KeyOf(task), .due = due};
  entries_.emplace(Number(task.id), entry);
  if (place == Place::kEligible) {
    (entry.kind == QueueKind::kMain ? main_ : recovery_).insert(entry.key);
  } else if (place == Place::kTimed) {
    timed_.emplace(due, task.id);
  }
}

void Queue::Remove(TaskId task) {
  const auto at = entries_.find(Number(task));
  if (at == entries_.end()) return;
  ++changes_;
  const Entry& entry = at->second;
  if (entry.place == Place::kEligible) {
    (entry.kind == QueueKind::kMain ? main_ : recovery_).erase(entry.key);
  } else if (entry.place == Place::kTimed) {
    timed_.erase({entry.due, task});
  }
  entries_.erase(at);
}

std::optional<Place> Queue::PlaceOf(TaskId task) const {
  const auto at = entries_.find(Number(task));
  if (at == entries_.end()) return std::nullopt;
  return at->second.place;
}

std::vector<TaskId> Queue::Due(Time now) const {
  std::vector<TaskId> due;
  for (const auto& [when, task] : timed_) {
    if (when > now) break;
    due.push_back(task);
  }
  return due;
}

std::optional<Time> Queue::NextDue() const {
  if (timed_.empty()) return std::nullopt;
  return timed_.begin()->first;
}

}  // namespace carma::core
