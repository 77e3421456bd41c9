// Makes events of the history about tasks and GPUs, as rows that the store will number. Pure.
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

// The event for `count` tasks that were submitted together; it belongs to the first task.
store::StoredEvent SubmittedEvent(core::TaskId first, std::size_t count, const Submitter& submitter,
                                  base::Time now);
// The event for a task's new state and its reason. gpu_uuids: the GPUs of its placement. Empty for
// states that every submission passes through.
std::optional<store::StoredEvent> StateEvent(const core::TaskRecord& record,
                                             const std::vector<std::string>& gpu_uuids,
                                             base::Time now);
// The event for a task edited by a user.
store::StoredEvent EditEvent(core::TaskId id, const std::string& what, base::Time now);
// The event for a task that was asked to checkpoint because it must leave.
store::StoredEvent AskedEvent(core::TaskId id, const core::Reason& why, base::Time now);
// The event for a notice that was sent, or that could not be sent.
store::StoredEvent NoticeEvent(const store::Notice& notice, base::Time now);
// The event for a change of a task's Slurm job.
store::StoredEvent SlurmEvent(core::TaskId id, const std::string& told, base::Time now);
// The event for a GPU that was closed, or, without `why`, reopened.
store::StoredEvent DrainEvent(const std::string& gpu_uuid, const std::optional<std::string>& why,
                              base::Time now);
// The event for a reservation that was made, or removed by a user.
store::StoredEvent ReserveEvent(const core::Reservation& booking, const std::string& removed_by,
                                base::Time now);

// The GPUs of a task's placement, such as "0,2".
std::string GpuNumbers(const core::TaskRecord& record);

}  // namespace carma::daemon
