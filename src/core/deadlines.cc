#include "core/deadlines.h"

namespace carma::core {
namespace {

std::optional<std::pair<Time, TaskId>> EntryOf(const TaskRecord& task) {
  if (!task.attempt.started || !task.request.time_limit) return std::nullopt;
  return std::pair(*task.attempt.started + *task.request.time_limit, task.id);
}

}  // namespace

void Deadlines::Watch(const TaskRecord& task) {
  if (const auto entry = EntryOf(task)) times_.insert(*entry);
}

void Deadlines::Forget(const TaskRecord& task) {
  if (const auto entry = EntryOf(task)) times_.erase(*entry);
}

std::optional<TaskId> Deadlines::Expired(Time now) const {
  if (times_.empty() || times_.begin()->first > now) return std::nullopt;
  return times_.begin()->second;
}

std::optional<Time> Deadlines::Next() const {
  if (times_.empty()) return std::nullopt;
  return times_.begin()->first;
}

bool Deadlines::Watches(const TaskRecord& task) const {
  const auto entry = EntryOf(task);
  return entry && times_.contains(*entry);
}

}  // namespace carma::core
