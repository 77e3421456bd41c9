// Creates the rows of history events about tasks and GPUs; the store numbers them. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/values/ids.h"
#include "core/values/reason.h"
#include "core/values/reservation.h"
#include "daemon/engine/intake.h"
#include "store/store.h"

namespace carma::daemon {

// The event for `count` tasks submitted together, recorded for the first task.
store::StoredEvent SubmittedEvent(core::TaskId first, std::size_t count, const Submitter& submitter,
                                  base::Time now);
// The event for a task's new state and its reason. Empty for states that every submitted task
// passes through. The event of an end has the time when the task ended, even if carmad was down
// then. gpu_uuids: the GPUs in the task's placement.
std::optional<store::StoredEvent> StateEvent(const core::TaskRecord& record,
                                             const std::vector<std::string>& gpu_uuids,
                                             base::Time now);
// The event for a user's edit of a task.
store::StoredEvent EditEvent(core::TaskId id, const std::string& what, base::Time now);
// The event for asking a task to checkpoint because it must leave its GPUs.
store::StoredEvent AskedEvent(core::TaskId id, const core::Reason& why, base::Time now);
// The event for a notice that was sent or could not be sent.
store::StoredEvent NoticeEvent(const store::Notice& notice, base::Time now);
// The event for a change to a task's Slurm job.
store::StoredEvent SlurmEvent(core::TaskId id, const std::string& told, base::Time now);
// The event for closing a GPU, or the whole server if gpu_uuid is empty. Without `why`, the event
// for reopening it.
store::StoredEvent DrainEvent(const std::string& gpu_uuid, const std::optional<std::string>& why,
                              base::Time now);
// The event for a reservation that a user has made or removed.
store::StoredEvent ReserveEvent(const core::Reservation& booking, const std::string& removed_by,
                                base::Time now);

// The indexes of the GPUs in a task's placement, such as "0,2".
std::string GpuNumbers(const core::TaskRecord& record);

}  // namespace carma::daemon
