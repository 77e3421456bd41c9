// Which waiting tasks may be looked at, and which wait for something else than GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "core/scheduler_state.h"

namespace carma::core {
namespace {

enum class Met { kYes, kNotYet, kNever };

Met IsMet(const Dependency& dependency, bool held) {
  if (!dependency.known_final) return held ? Met::kNotYet : Met::kNever;
  const bool succeeded = *dependency.known_final == TaskState::kSucceeded;
  switch (dependency.kind) {
    case DependencyKind::kAfterAny:
      return Met::kYes;
    case DependencyKind::kAfterOk:
      return succeeded ? Met::kYes : Met::kNever;
    case DependencyKind::kAfterNotOk:
      return succeeded ? Met::kNever : Met::kYes;
  }
  return Met::kNever;
}

std::string_view WhatItWaitsFor(DependencyKind kind) {
  switch (kind) {
    case DependencyKind::kAfterOk:
      return "succeed";
    case DependencyKind::kAfterNotOk:
      return "fail";
    case DependencyKind::kAfterAny:
      break;
  }
  return "end";
}

}  // namespace

void Scheduler::State::RegisterArrivals() {
  for (const TaskId id : arrivals) {
    TaskRecord* task = Held(id);
    if (task == nullptr) continue;
    for (Dependency& dependency : task->request.dependencies) {
      if (dependency.known_final || dependency.task == id) continue;
      if (tasks.contains(dependency.task)) {
        dependents[dependency.task].push_back(id);
      } else if (const auto ended = ended_now.find(dependency.task); ended != ended_now.end()) {
        dependency.known_final = ended->second;
      }
    }
  }
  arrivals.clear();
}

void Scheduler::State::TellDependents(TaskId id, TaskState state) {
  const auto waiting = dependents.extract(id);
  if (waiting.empty()) return;
  for (const TaskId each : waiting.mapped()) {
    TaskRecord* task = Held(each);
    if (task == nullptr) continue;
    for (Dependency& dependency : task->request.dependencies) {
      if (dependency.task == id && !dependency.known_final) dependency.known_final = state;
    }
    if (task->state == TaskState::kQueued) unsorted.insert(each);
  }
}

void Scheduler::State::SortWaiting() {
  RegisterArrivals();
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
  if (std::optional<Reason> never = NeverMetDependency(task)) {
    return Finish(task, TaskState::kCancelled, *std::move(never));
  }
  const Life& life = LifeOf(task.id);
  const Time earliest = EarliestStart(task);
  const bool wanting = !task.held && !UnmetDependency(task) && earliest <= now && !life.unfit;
  if (!wanting) LeaveArray(task);
  if (task.held) {
    queue.Put(task, Place::kHeld);
  } else if (UnmetDependency(task)) {
    queue.Put(task, Place::kDependency);
  } else if (earliest > now) {
    queue.Put(task, Place::kTimed, earliest);
  } else if (life.unfit) {
    queue.Put(task, Place::kUnfit);
  } else if (life.unscanned) {
    queue.Put(task, Place::kScan);
  } else if (!AdmitToArray(task)) {
    queue.Put(task, Place::kArray);
  } else {
    queue.Put(task, Place::kEligible);
  }
}

bool Scheduler::State::AdmitToArray(const TaskRecord& task) {
  if (!task.request.array || task.request.array_limit == 0) return true;
  ArrayBook& book = arrays[*task.request.array];
  if (book.admitted.contains(task.id)) return true;
  if (std::cmp_less(book.admitted.size(), task.request.array_limit)) {
    book.admitted.insert(task.id);
    return true;
  }
  book.waiting.insert(task.id);
  return false;
}

void Scheduler::State::LeaveArray(const TaskRecord& task) {
  if (!task.request.array) return;
  const auto at = arrays.find(*task.request.array);
  if (at == arrays.end()) return;
  ArrayBook& book = at->second;
  book.waiting.erase(task.id);
  const bool was_admitted = book.admitted.erase(task.id) > 0;
  if (was_admitted && !book.waiting.empty()) {
    unsorted.insert(*book.waiting.begin());
    book.waiting.erase(book.waiting.begin());
  }
  if (book.admitted.empty() && book.waiting.empty()) arrays.erase(at);
}

Time Scheduler::State::EarliestStart(const TaskRecord& task) const {
  return std::max(task.request.begin.value_or(Time{}), task.not_before.value_or(Time{}));
}

std::optional<Reason> Scheduler::State::UnmetDependency(const TaskRecord& task) const {
  for (const Dependency& dependency : task.request.dependencies) {
    const bool held = dependency.task != task.id && tasks.contains(dependency.task);
    if (IsMet(dependency, held) == Met::kYes) continue;
    return Reason{ReasonCode::kDependency,
                  fmt::format("Waits for task {} to {}.", Number(dependency.task),
                              WhatItWaitsFor(dependency.kind))};
  }
  return std::nullopt;
}

std::optional<Reason> Scheduler::State::NeverMetDependency(const TaskRecord& task) const {
  for (const Dependency& dependency : task.request.dependencies) {
    const bool held = dependency.task != task.id && tasks.contains(dependency.task);
    if (IsMet(dependency, held) != Met::kNever) continue;
    return Reason{
        ReasonCode::kDependencyNeverMet,
        dependency.known_final
            ? fmt::format("Was to wait for task {} to {}, but that is {}.", Number(dependency.task),
                          WhatItWaitsFor(dependency.kind), TaskStateName(*dependency.known_final))
            : fmt::format("Was to wait for task {}, which does not exist.",
                          Number(dependency.task))};
  }
  return std::nullopt;
}

}  // namespace carma::core
