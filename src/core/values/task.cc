#include "core/values/task.h"

#include "base/text.h"

#include <algorithm>
#include <array>

namespace carma::core {
namespace {

struct StateEntry {
  TaskState state;
  std::string_view code;
  bool final;
  bool holds_gpus;
};
// Of several states with one code, the usually meant one comes first.
constexpr std::array<StateEntry, kTaskStateCount> kStates{{
    {TaskState::kQueued, "PD", false, false},
    {TaskState::kSubmitted, "PD", false, false},
    {TaskState::kEstimating, "PD", false, false},
    {TaskState::kRunning, "R", false, true},
    {TaskState::kLaunching, "R", false, true},
    {TaskState::kStopping, "CG", false, true},
    {TaskState::kSucceeded, "CD", true, false},
    {TaskState::kFailed, "F", true, false},
    {TaskState::kCancelled, "CA", true, false},
    {TaskState::kTimedOut, "TO", true, false},
    {TaskState::kOutOfMemory, "OOM", true, false},
    {TaskState::kLost, "NF", true, false},
    {TaskState::kRejected, "RJ", true, false},
}};

constexpr const StateEntry& EntryOf(TaskState state) {
  for (const StateEntry& entry : kStates) {
    if (entry.state == state) return entry;
  }
  return kStates.front();
}

// 1 to 64 letters, digits, or one of these.
bool IsMadeOf(std::string_view text, std::string_view others) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

struct Step {
  TaskState from;
  TaskState to;
};
// A process may end before its start was reported, so every step allowed from running is allowed
// from launching.
constexpr std::array kSteps{
    Step{TaskState::kSubmitted, TaskState::kEstimating},
    Step{TaskState::kSubmitted, TaskState::kCancelled},
    Step{TaskState::kEstimating, TaskState::kQueued},
    Step{TaskState::kEstimating, TaskState::kRejected},
    Step{TaskState::kEstimating, TaskState::kCancelled},
    Step{TaskState::kQueued, TaskState::kLaunching},
    Step{TaskState::kQueued, TaskState::kCancelled},
    Step{TaskState::kQueued, TaskState::kSubmitted},  // edited: to be estimated again
    Step{TaskState::kLaunching, TaskState::kRunning},
    Step{TaskState::kLaunching, TaskState::kQueued},  // could not start, ran out of memory, victim
    Step{TaskState::kLaunching, TaskState::kStopping},
    Step{TaskState::kLaunching, TaskState::kSucceeded},
    Step{TaskState::kLaunching, TaskState::kFailed},
    Step{TaskState::kLaunching, TaskState::kOutOfMemory},
    Step{TaskState::kLaunching, TaskState::kLost},
    Step{TaskState::kRunning, TaskState::kQueued},  // out of memory, victim, machine lost
    Step{TaskState::kRunning, TaskState::kStopping},
    Step{TaskState::kRunning, TaskState::kSucceeded},
    Step{TaskState::kRunning, TaskState::kFailed},
    Step{TaskState::kRunning, TaskState::kOutOfMemory},
    Step{TaskState::kRunning, TaskState::kLost},
    Step{TaskState::kStopping, TaskState::kCancelled},
    Step{TaskState::kStopping, TaskState::kTimedOut},
    Step{TaskState::kStopping, TaskState::kQueued},  // requeue, GPU lost
    Step{TaskState::kStopping, TaskState::kLost},
};

}  // namespace

bool IsShareName(std::string_view name) {
  return IsMadeOf(name, "_-+.");
}

bool IsGpuName(std::string_view name) {
  const bool index =
      name.size() <= 4 && name.find_first_not_of("0123456789") == std::string_view::npos;
  const bool uuid = name.starts_with("GPU-") || name.starts_with("MIG-");
  return (index || uuid) && IsMadeOf(name, "-_./");
}

bool IsGpuTypeWord(std::string_view word) {
  return IsMadeOf(word, "-_. ") && word.front() != ' ' && word.back() != ' ';
}

std::string_view TaskStateCode(TaskState state) {
  return EntryOf(state).code;
}

std::optional<TaskState> ParseTaskState(std::string_view name_or_code) {
  std::string lower = base::ToLower(base::Trim(name_or_code));
  std::ranges::replace(lower, '-', '_');
  for (const StateEntry& entry : kStates) {
    if (base::ToLower(entry.code) == lower) return entry.state;
  }
  return base::FromWord<TaskState>(lower);
}

bool IsFinal(TaskState state) {
  return EntryOf(state).final;
}

bool HoldsGpus(TaskState state) {
  return EntryOf(state).holds_gpus;
}

bool IsLegalStep(TaskState from, TaskState to) {
  // The explicit requeue of a finished task.
  if (IsFinal(from)) return to == TaskState::kQueued;
  for (const Step& step : kSteps) {
    if (step.from == from && step.to == to) return true;
  }
  return false;
}

Attempt Attempt::Past() const {
  return {.number = number, .sharing = sharing, .launched = launched};
}

TaskRecord AsSubmitted(TaskRecord task) {
  task.queue = QueueKind::kMain;
  task.attempt = task.attempt->Past();
  task.ooms = task.launch_failures = task.node_failures = task.victim_restarts = 0;
  task.retry_free_mib.reset();
  task.retry_on_idle_gpu = false;
  task.not_before.reset();
  if (!IsFinal(task.state)) return task;
  task.state = TaskState::kSubmitted;
  task.held = false;
  task.estimate.reset();
  task.kind = {};
  task.attempt.Edit().launched.reset();
  task.ended.reset();
  return task;
}

}  // namespace carma::core
