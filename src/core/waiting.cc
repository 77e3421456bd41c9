// Which waiting tasks may be looked at, and which wait for something else than GPUs.
#include <algorithm>

#include "core/scheduler_state.h"

namespace carma::core {

void Scheduler::State::SortWaiting() {
  dependencies.Register(tasks);
  for (const TaskId id : queue.Due(now)) unsorted.insert(id);
  // A task whose dependency can never be met ends here, which may decide about further ones.
  while (!unsorted.empty()) {
    const TaskId id = *unsorted.begin();
    unsorted.erase(unsorted.begin());
    TaskRecord* task = Held(id);
    if (task != nullptr && task->state == TaskState::kQueued) SortIn(*task);
  }
}

void Scheduler::State::SortIn(TaskRecord& task) {
  if (std::optional<Reason> never = NeverMetDependency(task, tasks)) {
    return Finish(task, TaskState::kCancelled, *std::move(never));
  }
  Place place = PlaceFor(task);
  if (place == Place::kEligible) {
    if (!arrays.Admit(task)) place = Place::kArray;
  } else if (place != Place::kScan) {
    LeaveArray(task);
  }
  queue.Put(task, place, EarliestStart(task));
}

Place Scheduler::State::PlaceFor(const TaskRecord& task) const {
  const Life& life = lives.at(Number(task.id));
  if (task.held) return Place::kHeld;
  if (!DependenciesMet(task, tasks)) return Place::kDependency;
  if (EarliestStart(task) > now) return Place::kTimed;
  if (life.unfit) return Place::kUnfit;
  return life.unscanned ? Place::kScan : Place::kEligible;
}

void Scheduler::State::LeaveArray(const TaskRecord& task) {
  if (const std::optional<TaskId> next = arrays.Leave(task)) unsorted.insert(*next);
}

Time Scheduler::State::EarliestStart(const TaskRecord& task) const {
  return std::max(task.request.begin.value_or(Time{}), task.not_before.value_or(Time{}));
}

}  // namespace carma::core
