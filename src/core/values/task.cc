#include "core/values/task.h"

namespace carma::core {

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
