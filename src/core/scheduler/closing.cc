// Shutdown of the machine: no task starts, and running ones checkpoint before they are stopped.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "core/scheduler/scheduler_state.h"

namespace carma::core {

void Scheduler::State::On(const ServerClosed& event) {
  closing = event;
}

void Scheduler::State::On(const ServerOpened&) {
  closing.reset();
  no_start_without_gpus = {};
  // Tasks whose GPU must be empty anyway are asked again.
  for (const TaskId id : std::vector<TaskId>(leaving.begin(), leaving.end())) {
    TaskRecord& task = tasks.at(id);
    if (task.attempt->notice_cause == StopCause::kDrained) CancelPreemption(task);
  }
}

Time Scheduler::State::AskedBeforeShutdown() const {
  return closing->empty_by - std::max(config.slots.notice, config.slots.shutdown_notice);
}

bool Scheduler::State::MustAllLeave() const {
  return closing && now >= AskedBeforeShutdown();
}

void Scheduler::State::EmptyServer() {
  if (!closing) return;
  WakeForTurns(AskedBeforeShutdown());
  if (!MustAllLeave()) return;
  for (auto& [id, task] : tasks) {
    if (task.state == TaskState::kRunning) AskToLeave(task, StopCause::kDrained, closing->empty_by);
  }
}

// A task that is not requeued is lost with the machine, as without a notice.
Reason Scheduler::State::ReasonOfShutdown(const TaskRecord& task) const {
  return {task.request->requeue ? ReasonCode::kDraining : ReasonCode::kNodeFail,
          fmt::format("It had to leave by {}, for the server is {}.",
                      base::FormatTimeIso(closing->empty_by), closing->why)};
}

}  // namespace carma::core
