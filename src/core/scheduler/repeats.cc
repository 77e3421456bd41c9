#include "core/scheduler/repeats.h"

#include <fmt/format.h>

#include "core/scheduler/task_life.h"

namespace carma::core {
namespace {

constexpr Duration kEarly{60'000};

// The number of runs in a row, up to and including the current one, that were requeued within a
// minute of their start, if the task is requeued now. 0 if the current run has lasted longer.
int NextRepeat(const State& state, const TaskRecord& task) {
  const bool early = state.now - task.attempt->launched.value_or(state.now) < kEarly;
  return early ? state.LifeOf(task.id).repeats + 1 : 0;
}

// The first repetition causes no pause, because a user may requeue a task once, and a script may
// submit its next step immediately.
bool Pauses(State& state, TaskRecord& task) {
  const int repeats = state.LifeOf(task.id).repeats;
  if (repeats < 2) return false;
  task.not_before = state.now + RetryBackoff(repeats - 1);
  return true;
}

}  // namespace

void NoteRequeue(State& state, const TaskRecord& task) {
  state.EditLife(task.id).repeats = NextRepeat(state, task);
}

void PauseRequeued(State& state, TaskRecord& task) {
  if (!Pauses(state, task)) return;
  task.reason.text = fmt::format("Requeued within a minute of starting, {} times in a row.",
                                 state.LifeOf(task.id).repeats);
}

void PauseSubmitted(State& state, TaskRecord& task, TaskId by) {
  const TaskRecord* parent = state.Held(by);
  if (parent == nullptr || !HoldsGpus(parent->state)) return;
  const int repeats = NextRepeat(state, *parent);
  if (repeats == 0) return;
  state.EditLife(task.id).repeats = repeats;
  if (!Pauses(state, task)) return;
  task.reason = {ReasonCode::kBackoff,
                 fmt::format("Task {} submitted it within a minute of starting; it is number {} in "
                             "a chain of such tasks.",
                             by, repeats)};
}

}  // namespace carma::core
