// Time slice rules: when a running task may be asked to leave its GPUs, and how its end is then
// classified. Pure. core/forecast/preemption_plan.h decides which task leaves for which waiting
// task.
//
// A task leaves in two steps. First it receives its checkpoint signal. It should then save and exit
// within the notice period. If it has not exited by then, it is stopped. In both cases it is
// requeued.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "core/values/entitlement.h"
#include "core/values/exit.h"
#include "core/values/ids.h"
#include "core/values/task_request.h"

namespace carma::core {

// Returns kInvalid, naming the field, if a time slice is shorter than its notice period, a signal
// is unknown or an exit code is out of range.
Result<Unit> Validate(const SlotRules& rules);

// The name of the signal that the task receives when it should checkpoint.
std::string CheckpointSignal(const SlotRules& rules, const TaskRequest& request);

// The task's class; null if the class is not configured.
const QosClass* ClassOf(std::span<const QosClass> classes, const TaskRequest& request);

// Whether the task has declared that it can checkpoint, or has saved before when asked to leave.
bool KnowsToSave(const TaskRecord& task);

// Whether the task can be made to leave its GPUs at the end of a time slice, now or once it runs.
bool TakesTurns(const SlotRules& rules, const TaskRecord& task);

// Length of the task's time slice. SlotRules::length must be set. For a task that is not known to
// checkpoint, the length doubles with each stop after the first, so that the task finishes
// eventually.
Duration TurnOf(const SlotRules& rules, const TaskRecord& task);

// Time at which a running task's time slice ends. The task must have left its GPUs by then if
// another task waits for them. Empty: never, for example because the task must not be requeued
// (TaskRequest::requeue).
std::optional<Time> TurnEnds(const SlotRules& rules, const TaskRecord& task);

// Time at which the task is asked to checkpoint: TurnEnds minus the notice period.
std::optional<Time> TurnOver(const SlotRules& rules, const TaskRecord& task);

// Whether a task that was asked to checkpoint has saved and must be requeued. It has saved if it
// exited with one of SlotRules::exit_codes or was killed by the checkpoint signal itself. Any other
// end has its usual meaning: exit code 0 means that the task has finished.
bool SaysItSaved(const SlotRules& rules, const TaskRequest& request, const ExitInfo& exit);

}  // namespace carma::core
