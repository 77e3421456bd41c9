// Time slice rules: when a running task may be asked to leave its GPUs, and how to classify its
// exit. Pure. core/forecast/preemption_plan.h decides which task leaves for which waiting task.
//
// A task that must leave receives its checkpoint signal. It should then save and exit within the
// notice period; otherwise it is stopped. In both cases it is requeued.
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

// Returns the task's class, or null if it is not configured.
const QosClass* ClassOf(std::span<const QosClass> classes, const TaskRequest& request);

// True if the task has declared that it can checkpoint, or has saved before when asked to leave.
bool KnowsToSave(const TaskRecord& task);

// True if the task can be made to leave its GPUs at the end of a time slice, now or once it runs.
bool TakesTurns(const SlotRules& rules, const TaskRecord& task);

// Length of the task's time slice. SlotRules::length must be set. For a task that is not known to
// checkpoint, the length doubles with each stop after the first, so that the task finishes
// eventually.
Duration TurnOf(const SlotRules& rules, const TaskRecord& task);

// Time at which a running task's time slice ends. The task must have left its GPUs by then if
// another task is waiting for them. Empty if the slice never ends, for example because the task
// must not be requeued (TaskRequest::requeue).
std::optional<Time> TurnEnds(const SlotRules& rules, const TaskRecord& task);

// Time at which the task is asked to checkpoint: TurnEnds minus the notice period.
std::optional<Time> TurnOver(const SlotRules& rules, const TaskRecord& task);

// True if a task that was asked to checkpoint has saved its work and must be requeued: it exited
// with one of SlotRules::exit_codes, or was killed by the checkpoint signal itself. Any other exit
// has its usual meaning. For example, exit code 0 means that the task has finished.
bool SaysItSaved(const SlotRules& rules, const TaskRequest& request, const ExitInfo& exit);

}  // namespace carma::core
