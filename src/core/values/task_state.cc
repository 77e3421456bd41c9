#include "core/values/task_state.h"

#include "base/text.h"

#include <algorithm>
#include <string>

namespace carma::core {
namespace {

struct StateEntry {
  TaskState state;
  std::string_view code;
  bool final;
  bool holds_gpus;
};
// If several states have the same code, the state that users usually mean comes first.
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

struct Step {
  TaskState from;
  TaskState to;
};
// A process may exit before its start has been reported, so every step from kRunning is also
// allowed from kLaunching.
constexpr std::array kSteps{
    Step{TaskState::kSubmitted, TaskState::kEstimating},
    Step{TaskState::kSubmitted, TaskState::kCancelled},
    Step{TaskState::kEstimating, TaskState::kQueued},
    Step{TaskState::kEstimating, TaskState::kRejected},
    Step{TaskState::kEstimating, TaskState::kCancelled},
    Step{TaskState::kQueued, TaskState::kLaunching},
    Step{TaskState::kQueued, TaskState::kCancelled},
    // The task was edited, so it needs a new estimate.
    Step{TaskState::kQueued, TaskState::kSubmitted},
    Step{TaskState::kLaunching, TaskState::kRunning},
    // The task could not start, ran out of memory, or was a victim.
    Step{TaskState::kLaunching, TaskState::kQueued},
    Step{TaskState::kLaunching, TaskState::kStopping},
    Step{TaskState::kLaunching, TaskState::kSucceeded},
    Step{TaskState::kLaunching, TaskState::kFailed},
    Step{TaskState::kLaunching, TaskState::kOutOfMemory},
    Step{TaskState::kLaunching, TaskState::kLost},
    // The task ran out of memory, was a victim, or lost its machine.
    Step{TaskState::kRunning, TaskState::kQueued},
    Step{TaskState::kRunning, TaskState::kStopping},
    Step{TaskState::kRunning, TaskState::kSucceeded},
    Step{TaskState::kRunning, TaskState::kFailed},
    Step{TaskState::kRunning, TaskState::kOutOfMemory},
    Step{TaskState::kRunning, TaskState::kLost},
    Step{TaskState::kStopping, TaskState::kSucceeded},  // it exited before it was stopped
    Step{TaskState::kStopping, TaskState::kCancelled},
    Step{TaskState::kStopping, TaskState::kTimedOut},
    Step{TaskState::kStopping, TaskState::kQueued},  // it was requeued, or its GPU was lost
    Step{TaskState::kStopping, TaskState::kLost},
};

}  // namespace

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
  // A finished task leaves its final state only if a user requeues it.
  if (IsFinal(from)) return to == TaskState::kQueued;
  for (const Step& step : kSteps) {
    if (step.from == from && step.to == to) return true;
  }
  return false;
}

}  // namespace carma::core
