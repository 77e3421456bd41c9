// Turns on the GPUs: when a running task may be asked to leave for others, and what its end says
// then. Pure rules on values; who leaves for whom is core/room.h.
//
// A task leaves in two steps. It is asked to save (its checkpoint signal), and has the notice to do
// so and end; if it has not ended then, it is ended. Either way it waits again, and goes on later.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "core/values/entitlement.h"
#include "core/values/task.h"

namespace carma::core {

// Errors: kInvalid naming the field: a turn that is no longer than its notice, a signal or an exit
// code that there is not.
base::Result<base::Unit> Validate(const SlotRules& rules);

// The signal that asks it to save, by name.
std::string CheckpointSignal(const SlotRules& rules, const TaskRequest& request);

// Its class; null: one that is not configured.
const QosClass* ClassOf(std::span<const QosClass> classes, const TaskRequest& request);

// It says that it can be asked to save, or has saved when it was asked before.
bool KnowsToSave(const TaskRecord& task);

// Its turn may be taken to be over at some time, while it runs or once it does.
bool TakesTurns(const SlotRules& rules, const TaskRecord& task);

// How long its turn is: SlotRules::length, which must be set; of one that was ended more than once
// and is not known to save, twice as long after each further time, so that it ends some day.
Duration TurnOf(const SlotRules& rules, const TaskRecord& task);

// When the turn of a running task ends: if somebody waits for its place it has left by then. Empty:
// never. Tasks that may not start again (TaskRequest::requeue) stay.
std::optional<Time> TurnEnds(const SlotRules& rules, const TaskRecord& task);

// When that may be taken to be over: it is asked to save then, the notice before.
std::optional<Time> TurnOver(const SlotRules& rules, const TaskRecord& task);

// A running task that was asked to save has ended like that: has it saved, to go on later? By one
// of the exit codes that say so, or by the very signal that asked it. Any other end is what it
// always was: with exit code 0 it has finished.
bool SaysItSaved(const SlotRules& rules, const TaskRequest& request, const ExitInfo& exit);

}  // namespace carma::core
