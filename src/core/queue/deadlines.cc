#include "core/queue/deadlines.h"

#include <algorithm>

#include "core/values/task.h"

namespace carma::core {
namespace {

std::optional<std::pair<Time, TaskId>> EntryOf(const TaskRecord& task) {
  if (!task.attempt->started || !task.request->time_limit) return std::nullopt;
  return std::pair(*task.attempt->started + *task.request->time_limit, task.id);
}

std::optional<TaskId> FirstDue(const std::set<std::pair<Time, TaskId>>& times, Time now) {
  if (times.empty() || times.begin()->first > now) return std::nullopt;
  return times.begin()->second;
}

}  // namespace

void Deadlines::Watch(const TaskRecord& task) {
  const auto entry = EntryOf(task);
  if (!entry) return;
  times_.insert(*entry);
  if (task.request->signal_before && !task.attempt->warned)
    warnings_.emplace(entry->first - *task.request->signal_before, task.id);
}

void Deadlines::Forget(const TaskRecord& task) {
  const auto entry = EntryOf(task);
  if (!entry) return;
  times_.erase(*entry);
  if (task.request->signal_before)
    warnings_.erase({entry->first - *task.request->signal_before, task.id});
}

std::optional<TaskId> Deadlines::Expired(Time now) const {
  return FirstDue(times_, now);
}

std::optional<TaskId> Deadlines::ToWarn(Time now) const {
  return FirstDue(warnings_, now);
}

std::optional<Time> Deadlines::Next() const {
  std::optional<Time> next;
  for (const auto* times : {&times_, &warnings_}) {
    if (!times->empty())
      next = std::min(next.value_or(times->begin()->first), times->begin()->first);
  }
  return next;
}

bool Deadlines::Watches(const TaskRecord& task) const {
  const auto entry = EntryOf(task);
  return entry && times_.contains(*entry);
}

}  // namespace carma::core
