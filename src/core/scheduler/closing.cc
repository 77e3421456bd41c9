#include "core/scheduler/closing.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "core/scheduler/time_slices.h"

namespace carma::core {
namespace {

// While the server is closed, tasks are asked from then on.
Time AskedBeforeShutdown(const State& state) {
  return state.closing->empty_by -
         std::max(state.config.slots.notice, state.config.slots.shutdown_notice);
}

}  // namespace

void State::On(const ServerClosed& event) {
  closing = event;
}

void State::On(const ServerOpened&) {
  closing.reset();
  passes.no_start_without_gpus = {};
  // Tasks whose GPU must be empty anyway are asked again.
  for (const TaskId id :
       std::vector<TaskId>(preemptions.leaving.begin(), preemptions.leaving.end())) {
    TaskRecord& task = tasks.at(id);
    if (task.attempt->notice_cause == StopCause::kDrained) CancelPreemption(*this, task);
  }
}

bool MustAllLeave(const State& state) {
  return state.closing && state.now >= AskedBeforeShutdown(state);
}

void EmptyServer(State& state) {
  if (!state.closing) return;
  WakeForTurns(state, AskedBeforeShutdown(state));
  if (!MustAllLeave(state)) return;
  for (auto& [id, task] : state.tasks) {
    if (task.state == TaskState::kRunning)
      AskToLeave(state, task, StopCause::kDrained, state.closing->empty_by);
  }
}

// A task that is not requeued is lost with the machine, as without a notice.
Reason ReasonOfShutdown(const State& state, const TaskRecord& task) {
  return {task.request->requeue ? ReasonCode::kDraining : ReasonCode::kNodeFail,
          fmt::format("It had to leave by {} because the server is {}.",
                      base::FormatTimeIso(state.closing->empty_by), state.closing->why)};
}

}  // namespace carma::core
