// Creates notices about tasks according to users' rules (task::NotifyRule). A notice is stored
// together with the change that it reports.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "core/values/ids.h"
#include "store/store.h"
#include "task/describe/notify.h"

namespace carma::daemon {

// The notices that the administrator allows.
struct NoticeRules {
  bool enabled = true;
  std::vector<task::NotifyKind> allowed = {task::NotifyKind::kMail, task::NotifyKind::kWebhook,
                                           task::NotifyKind::kProgram};
  std::int64_t per_user_and_hour = 100;
  std::string sendmail = "/usr/sbin/sendmail";
};

// One sentence for each target that this server currently cannot notify.
std::vector<std::string> NoticeWarnings(const NoticeRules& rules,
                                        const std::set<std::string>& targets);

// The notification events for the task's new state, most specific first. May be empty.
std::vector<task::NotifyEvent> EventsOf(const core::TaskRecord& record);
// Describes the event in one sentence for users.
std::string TextOf(const core::TaskRecord& record, const std::string& name, task::NotifyEvent event,
                   const std::string& host);

class TaskNotices {
 public:
  // Both arguments must outlive this object. The rules may change.
  TaskNotices(const NoticeRules& rules, store::Store& store) : rules_(rules), store_(store) {}

  // Registers a task. Needed only for tasks with notifications.
  void Join(core::TaskId id, std::optional<core::TaskId> array);
  void JoinIfAsked(const store::StoredTask& task);  // calls Join() if the task has notifications
  void Leave(core::TaskId id);
  // Returns the notices for a task's new state, which must be stored together with that state.
  // Unregisters the task if it has finished. For an array, each event is reported only once, and
  // the end only when the last task ends, unless the rule asks for a notice about each task.
  // Notices beyond the limits are returned in state kDropped.
  std::vector<store::Notice> Of(const core::TaskRecord& record, base::Time now);

 private:
  struct Array {
    std::size_t tasks = 0;
    std::map<core::TaskId, core::TaskState> ended;  // since this daemon started
    // Events and targets of notices that were already sent; empty until they are looked up.
    std::optional<std::set<std::string>> told;
  };
  bool ToldBefore(core::TaskId array, const std::string& event, const std::string& target);
  // Reports in one sentence that all tasks of the array have ended, and how many are in each final
  // state.
  std::string ArrayText(core::TaskId array, const std::string& name, const std::string& host);
  // The event to report; empty if there is none yet or if it was already sent.
  std::optional<task::NotifyEvent> Choose(const task::NotifyRule& rule,
                                          const std::vector<task::NotifyEvent>& events,
                                          std::optional<core::TaskId> array, bool last);
  void Judge(store::Notice& notice, base::Time now);
  bool TooMany(std::uint32_t uid, base::Time now);

  const NoticeRules& rules_;
  store::Store& store_;
  // The array of each registered task.
  std::unordered_map<std::uint64_t, std::optional<core::TaskId>> members_;
  std::map<core::TaskId, Array> arrays_;
  // Times at which each user's notices of the last hour were created.
  std::map<std::uint32_t, std::deque<base::Time>> made_;
};

}  // namespace carma::daemon
