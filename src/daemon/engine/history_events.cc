#include "daemon/engine/history_events.h"

#include <fmt/format.h>

#include "base/text.h"
#include "core/values/reason_line.h"
#include "task/describe/notify.h"

namespace carma::daemon {
namespace {

bool WorthTelling(const core::TaskRecord& record) {
  if (record.state == core::TaskState::kSubmitted || record.state == core::TaskState::kEstimating)
    return false;
  return record.state != core::TaskState::kQueued || record.attempt->number > 0;
}

}  // namespace

store::StoredEvent SubmittedEvent(core::TaskId first, std::size_t count, const Submitter& submitter,
                                  base::Time now) {
  store::StoredEvent event{.when = now,
                           .kind = store::EventKind::kSubmitted,
                           .task = first,
                           .what = "submitted",
                           .text = fmt::format("by {}", submitter.user)};
  if (submitter.task) event.text += fmt::format(" in task {}", *submitter.task);
  if (!submitter.remark.empty()) event.text += fmt::format(", {}", submitter.remark);
  if (count > 1) event.text += fmt::format(", the first of {} tasks", count);
  return event;
}

std::optional<store::StoredEvent> StateEvent(const core::TaskRecord& record,
                                             const std::vector<std::string>& gpu_uuids,
                                             base::Time now) {
  if (!WorthTelling(record)) return std::nullopt;
  const bool launching = record.state == core::TaskState::kLaunching;
  store::StoredEvent event{
      .when = core::IsFinal(record.state) ? record.ended.value_or(now) : now,
      .kind = store::EventKind::kState,
      .task = record.id,
      .what = std::string(core::TaskStateName(record.state)),
      .text = core::ReasonLine(launching ? record.attempt->placement_reason : record.reason)};
  if (!gpu_uuids.empty()) event.gpu_uuid = gpu_uuids.front();
  // The event's row can name only one GPU. If there are several, the text names all of them.
  if (event.text.empty() && gpu_uuids.size() > 1)
    event.text = fmt::format("GPUs {}", GpuNumbers(record));
  return event;
}

store::StoredEvent EditEvent(core::TaskId id, const std::string& what, base::Time now) {
  return {.when = now, .kind = store::EventKind::kEdit, .task = id, .what = "edited", .text = what};
}

store::StoredEvent AskedEvent(core::TaskId id, const core::Reason& why, base::Time now) {
  return {.when = now,
          .kind = store::EventKind::kAsked,
          .task = id,
          .what = "asked_to_save",
          .text = core::ReasonLine(why)};
}

store::StoredEvent NoticeEvent(const store::Notice& notice, base::Time now) {
  const bool sent = notice.state == store::NoticeState::kSent;
  return {.when = now,
          .kind = store::EventKind::kNotice,
          .task = notice.task,
          .what = sent ? "notified" : "not_notified",
          .text = fmt::format("{} to {}{}", notice.event, task::ShownTarget(notice.target),
                              sent ? "" : ": " + notice.text)};
}

store::StoredEvent SlurmEvent(core::TaskId id, const std::string& told, base::Time now) {
  return {.when = now, .kind = store::EventKind::kSlurm, .task = id, .what = "slurm", .text = told};
}

store::StoredEvent DrainEvent(const std::string& gpu_uuid, const std::optional<std::string>& why,
                              base::Time now) {
  return {.when = now,
          .kind = why ? store::EventKind::kDrain : store::EventKind::kResume,
          .gpu_uuid = gpu_uuid,
          .what = why ? "drain" : "resume",
          .text = why.value_or("")};
}

store::StoredEvent ReserveEvent(const core::Reservation& booking, const std::string& removed_by,
                                base::Time now) {
  return {.when = now,
          .kind = store::EventKind::kReserve,
          .what = removed_by.empty() ? "reserve" : "unreserve",
          .text = fmt::format("reservation {} of {} for {}, by {}", booking.id,
                              core::WhichOf(booking), core::WhomFor(booking),
                              removed_by.empty() ? booking.made_by : removed_by)};
}

std::string GpuNumbers(const core::TaskRecord& record) {
  std::vector<std::string> numbers;
  for (const core::Placement& at : record.attempt->placement)
    numbers.push_back(fmt::format("{}", at.gpu));
  return base::Join(numbers, ",");
}

}  // namespace carma::daemon
