// What the history tells of tasks and GPUs, as rows that the store will number. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/values/reservation.h"
#include "core/values/task.h"
#include "daemon/engine/intake.h"
#include "store/store.h"

namespace carma::daemon {

// Of `count` tasks that were submitted together; it belongs to the first.
store::StoredEvent SubmittedEvent(core::TaskId first, std::size_t count, const Submitter& submitter,
                                  base::Time now);
// Of the state that a task has come to, with why. gpu_uuids: of its placement. Empty: every
// submission passes through it, and the history would only repeat itself.
std::optional<store::StoredEvent> StateEvent(const core::TaskRecord& record,
                                             const std::vector<std::string>& gpu_uuids,
                                             base::Time now);
// Of a task that a person has changed.
store::StoredEvent EditEvent(core::TaskId id, const std::string& what, base::Time now);
// Of a task that was asked to save because it has to leave.
store::StoredEvent AskedEvent(core::TaskId id, const core::Reason& why, base::Time now);
// Of a notice that was sent, or will not be.
store::StoredEvent NoticeEvent(const store::Notice& notice, base::Time now);
// Of what becomes of the job that a task was of.
store::StoredEvent SlurmEvent(core::TaskId id, const std::string& told, base::Time now);
// Of a GPU that was closed; without why: that was opened again.
store::StoredEvent DrainEvent(const std::string& gpu_uuid, const std::optional<std::string>& why,
                              base::Time now);
// Of a reservation that was made, or removed by somebody.
store::StoredEvent ReserveEvent(const core::Reservation& booking, const std::string& removed_by,
                                base::Time now);

// "0,2": the GPUs of a task's placement.
std::string GpuNumbers(const core::TaskRecord& record);

}  // namespace carma::daemon
