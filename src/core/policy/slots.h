// Time slices: when a running task may be asked to leave for others, and how its end is then
// judged. Pure rules on values; core/forecast/preemption_plan.h decides which task leaves for
// which.
//
// A task leaves in two steps. It is asked to checkpoint by its checkpoint signal and has the notice
// to save and exit; after that it is stopped. Either way it is requeued.
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

// Errors: kInvalid with the field: a time slice no longer than its notice, an unknown signal or an
// impossible exit code.
Result<Unit> Validate(const SlotRules& rules);

// The name of the signal that asks the task to checkpoint.
std::string CheckpointSignal(const SlotRules& rules, const TaskRequest& request);

// The task's class; null: not configured.
const QosClass* ClassOf(std::span<const QosClass> classes, const TaskRequest& request);

// Whether the task declares that it can checkpoint, or has done so when asked before.
bool KnowsToSave(const TaskRecord& task);

// Whether the task's time slice can end, now or once the task runs.
bool TakesTurns(const SlotRules& rules, const TaskRecord& task);

// Length of the task's time slice: SlotRules::length, which must be set. For a task not known to
// checkpoint it doubles with each stop after the first, so that the task finishes eventually.
Duration TurnOf(const SlotRules& rules, const TaskRecord& task);

// End of a running task's time slice, by which it has left if another task waits for its place.
// Empty: never. Tasks that may not be requeued (TaskRequest::requeue) stay.
std::optional<Time> TurnEnds(const SlotRules& rules, const TaskRecord& task);

// When the task is asked to checkpoint: TurnEnds less the notice.
std::optional<Time> TurnOver(const SlotRules& rules, const TaskRecord& task);

// Whether a task that was asked to checkpoint has saved and must be requeued: it ended with one of
// the agreed exit codes, or by the checkpoint signal itself. Any other end has its usual meaning:
// with exit code 0 it has finished.
bool SaysItSaved(const SlotRules& rules, const TaskRequest& request, const ExitInfo& exit);

}  // namespace carma::core
