#include "core/queue/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/values/task.h"

namespace carma::core {
namespace {

enum class Met { kYes, kNotYet, kNever };

Met IsMet(const TaskRecord& task, const Dependency& dependency, const TaskRecords& tasks) {
  if (!dependency.known_final) {
    const bool lives = dependency.task != task.id && tasks.contains(dependency.task);
    return lives ? Met::kNotYet : Met::kNever;
  }
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

std::string_view HowItEnded(TaskState end) {
  switch (end) {
    case TaskState::kCancelled:
      return "was cancelled";
    case TaskState::kTimedOut:
      return "reached its time limit";
    case TaskState::kOutOfMemory:
      return "ran out of GPU memory";
    case TaskState::kLost:
      return "was lost";
    case TaskState::kRejected:
      return "was rejected";
    default:
      return TaskStateName(end);  // such as failed or succeeded
  }
}

}  // namespace

bool DependenciesMet(const TaskRecord& task, const TaskRecords& tasks) {
  return std::ranges::all_of(task.request->dependencies, [&](const Dependency& each) {
    return IsMet(task, each, tasks) == Met::kYes;
  });
}

std::optional<Reason> UnmetDependency(const TaskRecord& task, const TaskRecords& tasks) {
  for (const Dependency& dependency : task.request->dependencies) {
    if (IsMet(task, dependency, tasks) == Met::kYes) continue;
    return Reason{ReasonCode::kDependency,
                  fmt::format("Waiting for task {} to {}.", dependency.task,
                              WhatItWaitsFor(dependency.kind))};
  }
  return std::nullopt;
}

std::optional<Reason> NeverMetDependency(const TaskRecord& task, const TaskRecords& tasks) {
  for (const Dependency& dependency : task.request->dependencies) {
    if (IsMet(task, dependency, tasks) != Met::kNever) continue;
    return Reason{
        ReasonCode::kDependencyNeverMet,
        dependency.known_final
            ? fmt::format("Task {} had to {} first, but it {}.", dependency.task,
                          WhatItWaitsFor(dependency.kind), HowItEnded(*dependency.known_final))
            : fmt::format("Depends on task {}, which does not exist.", dependency.task)};
  }
  return std::nullopt;
}

std::optional<Reason> NeverMetByEnds(std::vector<Dependency> dependencies) {
  std::erase_if(dependencies, [](const Dependency& each) { return !each.known_final; });
  TaskRequest ended;
  ended.dependencies = std::move(dependencies);
  return NeverMetDependency({.request = std::move(ended)}, {});
}

std::vector<TaskId> Dependencies::Register(TaskRecords& tasks) {
  if (std::exchange(returned_, false)) {
    const auto outdated = [&](const Dependency& each) {
      return each.known_final && (tasks.contains(each.task) || ended_.contains(each.task));
    };
    for (const auto& [id, task] : tasks) {
      if (std::ranges::any_of(task.request->dependencies, outdated)) arrivals_.push_back(id);
    }
  }
  for (const TaskId id : arrivals_) {
    const auto task = tasks.find(id);
    if (task == tasks.end()) continue;
    if (task->second.request->dependencies.empty()) continue;
    const bool has_started = task->second.attempt->launched.has_value();
    for (Dependency& dependency : task->second.request.Edit().dependencies) {
      if (dependency.task == id || (dependency.known_final && has_started)) continue;
      if (tasks.contains(dependency.task)) {
        dependency.known_final.reset();
        dependents_[dependency.task].push_back(id);
      } else if (const auto ended = ended_.find(dependency.task); ended != ended_.end()) {
        dependency.known_final = ended->second;
      }
    }
  }
  return std::exchange(arrivals_, {});
}

std::vector<TaskId> Dependencies::End(TaskId id, TaskState state, TaskRecords& tasks) {
  ended_.insert_or_assign(id, state);
  const auto found = dependents_.extract(id);
  if (found.empty()) return {};
  std::vector<TaskId> told;
  for (const TaskId each : found.mapped()) {
    const auto task = tasks.find(each);
    if (task == tasks.end()) continue;
    for (Dependency& dependency : task->second.request.Edit().dependencies) {
      if (dependency.task == id && !dependency.known_final) dependency.known_final = state;
    }
    told.push_back(each);
  }
  return told;
}

}  // namespace carma::core
