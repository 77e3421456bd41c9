#include "core/queue/queue.h"

#include "core/values/task.h"

namespace carma::core {

LineKey LineOf(const TaskRecord& task) {
  return {.holder = HolderOf(task.request), .qos = task.request->qos.value_or("")};
}

LineKind LineKindOf(const TaskRequest& request) {
  return request.gpus == 0 ? LineKind::kWithoutGpus : LineKind::kWithGpus;
}

std::optional<TaskId> WaitingLine::First() const {
  std::optional<QueueKey> first;
  for (const auto& [key, line] : holders) {
    const QueueKey& of_line = *line.tasks.begin();
    if (!first || of_line < *first) first = of_line;
  }
  return first ? std::optional(first->task) : std::nullopt;
}

void Queue::UseClasses(const std::vector<QosClass>& classes) {
  priorities_.clear();
  for (const QosClass& each : classes) priorities_[each.name] = each.priority;
}

QueueKey Queue::KeyOf(const TaskRecord& task) const {
  std::int64_t priority = task.request->priority;
  const auto of_class = priorities_.find(QosOf(task.request));
  if (of_class != priorities_.end()) priority += of_class->second;
  const bool at_the_end =
      task.queue == QueueKind::kRecovery || task.reason.code == ReasonCode::kTimeSlot;
  return {.less_priority = -priority,
          .since = at_the_end ? task.queued_since : task.submitted,
          .task = task.id};
}

void Queue::Put(const TaskRecord& task, Place place, Time due, Time waits_since) {
  ++changes_;
  Entry entry{.key = place == Place::kTimed ? QueueKey{.since = due, .task = task.id} : KeyOf(task),
              .place = place,
              .kind = task.queue,
              .line_kind = LineKindOf(task.request)};
  WaitingLine& main = LinesOf(entry.line_kind);
  const LineKey key = LineOf(task);
  const auto line = main.holders.find(key);
  // Moving a task within its line does not reset the line's waiting time.
  if (line != main.holders.end()) waits_since = line->second.waits_since;
  Remove(task.id);
  if (place == Place::kEligible && entry.kind == QueueKind::kMain) {
    entry.line = main.holders.try_emplace(key).first;
    HolderLine& of = entry.line->second;
    if (of.tasks.empty()) {
      of.user = UserOf(task.request);
      of.waits_since = waits_since;
    }
    of.tasks.insert(entry.key);
    ++main.size;
  } else if (place == Place::kEligible) {
    recovery_.insert(entry.key);
  } else if (place == Place::kTimed) {
    timed_.emplace(due, task.id);
  }
  entries_.emplace(Number(task.id), entry);
}

void Queue::NoteStart(const TaskRecord& task, Time now) {
  WaitingLine& main = LinesOf(LineKindOf(task.request));
  const auto line = main.holders.find(LineOf(task));
  if (line != main.holders.end()) line->second.waits_since = now;
}

void Queue::Remove(TaskId task) {
  const auto at = entries_.find(Number(task));
  if (at == entries_.end()) return;
  ++changes_;
  Leave(at->second);
  entries_.erase(at);
}

void Queue::Leave(const Entry& entry) {
  if (entry.place == Place::kTimed) timed_.erase({entry.key.since, entry.key.task});
  if (entry.place != Place::kEligible) return;
  if (entry.kind == QueueKind::kRecovery) {
    recovery_.erase(entry.key);
    return;
  }
  WaitingLine& main = LinesOf(entry.line_kind);
  --main.size;
  entry.line->second.tasks.erase(entry.key);
  if (entry.line->second.tasks.empty()) main.holders.erase(entry.line);
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
