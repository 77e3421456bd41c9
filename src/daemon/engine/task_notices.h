// Notifications about tasks: turns users' rules (task::NotifyRule) into notices that are stored
// together with the change they report.
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

// What the administrator allows.
struct NoticeRules {
  bool enabled = true;
  std::vector<task::NotifyKind> allowed = {task::NotifyKind::kMail, task::NotifyKind::kWebhook,
                                           task::NotifyKind::kProgram};
  std::int64_t per_user_and_hour = 100;
  std::string sendmail = "/usr/sbin/sendmail";
};

// One sentence for each target of new tasks to which this server cannot send now.
std::vector<std::string> NoticeWarnings(const NoticeRules& rules,
                                        const std::set<std::string>& targets);

// Events of a change of state, the most specific first; empty: none.
std::vector<task::NotifyEvent> EventsOf(const core::TaskRecord& record);
// The event as one sentence for people.
std::string TextOf(const core::TaskRecord& record, const std::string& name, task::NotifyEvent event,
                   const std::string& host);

class TaskNotices {
 public:
  // Both outlive it; the rules may change.
  TaskNotices(const NoticeRules& rules, store::Store& store) : rules_(rules), store_(store) {}

  // Registers a task with notifications; other tasks cost nothing.
  void Join(core::TaskId id, std::optional<core::TaskId> array);
  void JoinIfAsked(const store::StoredTask& task);  // if it has some
  void Leave(core::TaskId id);
  // The notices for a task's new state, to be stored with it. A finished task is dropped here. An
  // array is reported once, its end with its last task, unless the rule asks for each task. Notices
  // beyond the limits are returned as dropped.
  std::vector<store::Notice> Of(const core::TaskRecord& record, base::Time now);

 private:
  struct Array {
    std::size_t tasks = 0;
    std::map<core::TaskId, core::TaskState> ended;  // since this daemon started
    std::optional<std::set<std::string>> told;      // event and target; empty: not yet looked up
  };
  bool ToldBefore(core::TaskId array, const std::string& event, const std::string& target);
  // A sentence that all tasks have ended, with the number for each final state.
  std::string ArrayText(core::TaskId array, const std::string& name, const std::string& host);
  // The event to report; empty: none yet, or it was already sent.
  std::optional<task::NotifyEvent> Choose(const task::NotifyRule& rule,
                                          const std::vector<task::NotifyEvent>& events,
                                          std::optional<core::TaskId> array, bool last);
  void Judge(store::Notice& notice, base::Time now);
  bool TooMany(std::uint32_t uid, base::Time now);

  const NoticeRules& rules_;
  store::Store& store_;
  std::unordered_map<std::uint64_t, std::optional<core::TaskId>> members_;  // their arrays
  std::map<core::TaskId, Array> arrays_;
  std::map<std::uint32_t, std::deque<base::Time>> made_;  // of each user, within the last hour
};

}  // namespace carma::daemon
