// The rules of time slices: when a running task may be asked to leave, and how its end is then
// classified. Pure. core/forecast/preemption_plan.h decides which task leaves for which waiting
// task.
//
// A task leaves in two steps. First its checkpoint signal asks it to save and exit within the
// notice period. After that it is stopped. Either way it is requeued.
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

// Errors: kInvalid, naming the field, if a time slice is no longer than its notice, a signal is
// unknown or an exit code is impossible.
Result<Unit> Validate(const SlotRules& rules);

// The name of the signal that asks the task to checkpoint.
std::string CheckpointSignal(const SlotRules& rules, const TaskRequest& request);

// The task's class; null if the class is not configured.
const QosClass* ClassOf(std::span<const QosClass> classes, const TaskRequest& request);

// Whether the task declares that it can checkpoint, or has saved when it was asked before.
bool KnowsToSave(const TaskRecord& task);

// Whether the task has time slices that can end, now or once it runs.
bool TakesTurns(const SlotRules& rules, const TaskRecord& task);

// Length of the task's time slice: SlotRules::length, which must be set. For a task not known to
// checkpoint it doubles with each stop after the first, so that the task finishes eventually.
Duration TurnOf(const SlotRules& rules, const TaskRecord& task);

// The end of a running task's time slice. By then the task must have left if another task waits for
// its GPUs. Empty: never, for example if the task may not be requeued (TaskRequest::requeue).
std::optional<Time> TurnEnds(const SlotRules& rules, const TaskRecord& task);

// When the task is asked to checkpoint: the notice period before TurnEnds.
std::optional<Time> TurnOver(const SlotRules& rules, const TaskRecord& task);

// Whether a task that was asked to checkpoint has saved and must be requeued: it ended with one of
// SlotRules::exit_codes or by the checkpoint signal itself. Any other end has its usual meaning;
// with exit code 0 the task has finished.
bool SaysItSaved(const SlotRules& rules, const TaskRequest& request, const ExitInfo& exit);

}  // namespace carma::core
