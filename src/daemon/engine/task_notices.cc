#include "daemon/engine/task_notices.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/host.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "core/values/reason_line.h"
#include "daemon/engine/history_events.h"
#include "task/describe/spec.h"

namespace carma::daemon {
namespace {

using core::ReasonCode;
using core::TaskState;
using task::NotifyEvent;

constexpr base::Duration kHour = std::chrono::hours(1);
constexpr std::size_t kMostOfReason = 500;

std::string Because(const core::TaskRecord& record) {
  const std::string why = base::Printable(core::AsClause(*record.reason.text), kMostOfReason);
  return why.empty() ? "" : ": " + why;
}

// Describes how the task ended, for example "failed after 2:10: exit code 1: ValueError".
std::string Ended(const core::TaskRecord& record) {
  const bool passive = record.state == TaskState::kCancelled || record.state == TaskState::kLost ||
                       record.state == TaskState::kRejected;
  std::string state = passive ? "was " : record.state == TaskState::kOutOfMemory ? "ran " : "";
  state += core::TaskStateName(record.state);
  std::ranges::replace(state, '_', ' ');
  const std::optional<base::Time> from = record.attempt->started;
  const std::string after = from && record.ended && *record.ended - *from >= std::chrono::seconds(1)
                                ? " after " + base::FormatSpan(*record.ended - *from)
                                : "";
  return state + after + (record.state == TaskState::kSucceeded ? "" : Because(record));
}

base::Json MessageOf(const core::TaskRecord& record, const store::StoredTask& stored,
                     const task::TaskSpec& spec, const std::string& event, const std::string& text,
                     const std::string& host) {
  base::Json json = {{"event", event},
                     {"text", text},
                     {"task", core::Number(record.id)},
                     {"name", stored.name},
                     {"user", stored.user},
                     {"host", host},
                     {"state", core::TaskStateName(record.state)},
                     {"reason", core::ReasonName(record.reason.code)},
                     {"reason_text", *record.reason.text},
                     {"attempt", record.attempt->number},
                     {"gpus", record.request->gpus},
                     {"submitted_ms", base::ToMs(record.submitted)},
                     {"peak_mib", record.peak_mib},
                     {"workdir", spec.workdir},
                     {"command", task::ShownCommand(spec)},
                     {"output", stored.stdout_path}};
  if (spec.array_index) json["array_index"] = *spec.array_index;
  if (!spec.parameters.empty()) json["parameters"] = spec.parameters;
  const auto add_time = [&json](const char* name, const std::optional<base::Time>& time) {
    json[name] = time ? base::Json(base::ToMs(*time)) : base::Json(nullptr);
  };
  add_time("started_ms", record.attempt->started);
  add_time("ended_ms", record.ended);
  const bool exited = core::IsFinal(record.state) && record.attempt->started &&
                      record.exit->kind != core::ExitKind::kLost;
  json["exit_code"] = exited && record.exit->signal == 0 ? base::Json(record.exit->code) : nullptr;
  json["signal"] = exited && record.exit->signal != 0 ? base::Json(record.exit->signal) : nullptr;
  json["array"] =
      record.request->array ? base::Json(core::Number(*record.request->array)) : nullptr;
  return json;
}

// Why this server must not notify the target; empty if it may.
std::string Forbidden(const NoticeRules& rules, const task::NotifyTarget& target) {
  if (!rules.enabled) return "notifications are off on this server (notify.enabled)";
  if (std::ranges::find(rules.allowed, target.kind) == rules.allowed.end())
    return fmt::format("{} notifications are not allowed on this server (notify.allow)",
                       base::WordOf(target.kind));
  return "";
}

}  // namespace

std::vector<std::string> NoticeWarnings(const NoticeRules& rules,
                                        const std::set<std::string>& targets) {
  std::vector<std::string> warnings;
  for (const std::string& text : targets) {
    const Result<task::NotifyTarget> target = task::ParseNotifyTarget(text);
    std::string why = target ? Forbidden(rules, *target) : target.error().message;
    if (why.empty() && target->kind == task::NotifyKind::kMail &&
        ::access(rules.sendmail.c_str(), X_OK) != 0)
      why = "this server cannot send mail: there is no program " + rules.sendmail;
    if (!why.empty())
      warnings.push_back(fmt::format("--notify {}: {}", task::ShownTarget(text), why));
  }
  return warnings;
}

std::vector<NotifyEvent> EventsOf(const core::TaskRecord& record) {
  const ReasonCode reason = record.reason.code;
  switch (record.state) {
    case TaskState::kRunning:
      return {NotifyEvent::kStart};
    case TaskState::kQueued:
      if (record.attempt->number == 0) return {};
      if (reason == ReasonCode::kOutOfMemory) return {NotifyEvent::kOutOfMemory};
      return {NotifyEvent::kRequeue};
    case TaskState::kSucceeded:
      return {NotifyEvent::kEnd};
    case TaskState::kCancelled:
      if (reason == ReasonCode::kCancelledByUser) return {NotifyEvent::kEnd};
      return {NotifyEvent::kFail, NotifyEvent::kEnd};
    case TaskState::kOutOfMemory:
      return {NotifyEvent::kOutOfMemory, NotifyEvent::kFail, NotifyEvent::kEnd};
    case TaskState::kFailed:
    case TaskState::kTimedOut:
    case TaskState::kLost:
    case TaskState::kRejected:
      return {NotifyEvent::kFail, NotifyEvent::kEnd};
    case TaskState::kSubmitted:
    case TaskState::kEstimating:
    case TaskState::kLaunching:
    case TaskState::kStopping:
      break;
  }
  return {};
}

std::string TextOf(const core::TaskRecord& record, const std::string& name, NotifyEvent event,
                   const std::string& host) {
  const std::string shown = base::Printable(name, 100);
  std::string what;
  if (core::IsFinal(record.state)) {
    what = Ended(record);
  } else if (event == NotifyEvent::kStart) {
    const std::string gpus = GpuNumbers(record);
    what = gpus.empty() ? "runs" : "runs on GPU " + gpus;
  } else if (event == NotifyEvent::kOutOfMemory) {
    what = "ran out of GPU memory and will start again";
  } else {
    what = "went back to the queue" + Because(record);
  }
  return fmt::format("Task {} ({}) on {} {}", record.id, shown, host, what);
}

void TaskNotices::Join(core::TaskId id, std::optional<core::TaskId> array) {
  const bool added = members_.try_emplace(core::Number(id), array).second;
  if (added && array) ++arrays_[*array].tasks;
}

// A text search is good enough here: most descriptions have no notifications, and a false match
// costs only a check at each state change.
void TaskNotices::JoinIfAsked(const store::StoredTask& task) {
  if (task.spec_json.contains("\"notify\":")) Join(task.record.id, task.record.request->array);
}

std::string TaskNotices::ArrayText(core::TaskId array, const std::string& name,
                                   const std::string& host) {
  std::map<TaskState, int> counts;
  int all = 0;
  const auto stored = store_.StatesOfArray(array);
  if (!stored) {
    base::LogWarn("array_not_read", {{"why", stored.error().message}});
    return fmt::format("All tasks of array {} ({}) on {} have ended", array,
                       base::Printable(name, 100), host);
  }
  const auto& ended = arrays_.at(array).ended;
  for (const auto& [id, state] : *stored) {
    const auto now = ended.find(id);
    ++counts[now == ended.end() ? state : now->second];
    ++all;
  }
  std::string parts;
  for (const auto& [state, count] : counts) {
    std::string word(core::TaskStateName(state));
    std::ranges::replace(word, '_', ' ');
    parts += fmt::format("{} {} {}", parts.empty() ? ":" : ",", count, word);
  }
  return fmt::format("All {} tasks of array {} ({}) on {} have ended{}", all, array,
                     base::Printable(name, 100), host, parts);
}

void TaskNotices::Leave(core::TaskId id) {
  const auto member = members_.extract(core::Number(id));
  if (!member || !member.mapped()) return;
  const auto array = arrays_.find(*member.mapped());
  if (--array->second.tasks == 0) arrays_.erase(array);
}

bool TaskNotices::ToldBefore(core::TaskId array, const std::string& event,
                             const std::string& target) {
  std::optional<std::set<std::string>>& told = arrays_[array].told;
  if (!told) {
    told.emplace();
    if (const auto notices = store_.NoticesOf(array)) {
      for (const store::Notice& each : *notices) told->insert(each.event + " " + each.target);
    }
  }
  return !told->insert(event + " " + target).second;
}

std::optional<NotifyEvent> TaskNotices::Choose(const task::NotifyRule& rule,
                                               const std::vector<NotifyEvent>& events,
                                               std::optional<core::TaskId> array, bool last) {
  for (const NotifyEvent event : events) {
    if (!task::Wants(rule, event)) continue;
    if (!array || rule.each_task) return event;
    if (event == NotifyEvent::kEnd && !last) continue;
    if (!ToldBefore(*array, std::string(base::WordOf(event)), rule.target)) return event;
  }
  return std::nullopt;
}

bool TaskNotices::TooMany(std::uint32_t uid, base::Time now) {
  const auto [at, added] = made_.try_emplace(uid);
  std::deque<base::Time>& times = at->second;
  if (added) {
    // Notices from before this daemon started also count. Their exact times within the hour do not
    // matter.
    const Result<std::int64_t> before = store_.CountNotices(uid, now - kHour);
    times.assign(static_cast<std::size_t>(before.value_or(0)), now - kHour / 2);
  }
  while (!times.empty() && times.front() < now - kHour) times.pop_front();
  if (std::cmp_greater_equal(times.size(), rules_.per_user_and_hour)) return true;
  times.push_back(now);
  return false;
}

void TaskNotices::Judge(store::Notice& notice, base::Time now) {
  const Result<task::NotifyTarget> target = task::ParseNotifyTarget(notice.target);
  if (!target) {
    notice.text = target.error().message;
  } else if (std::string forbidden = Forbidden(rules_, *target); !forbidden.empty()) {
    notice.text = std::move(forbidden);
  } else if (TooMany(notice.uid, now)) {
    notice.text =
        fmt::format("more than {} notifications within an hour (notify.per_user_and_hour)",
                    rules_.per_user_and_hour);
  }
  if (!notice.text.empty()) notice.state = store::NoticeState::kDropped;
}

std::vector<store::Notice> TaskNotices::Of(const core::TaskRecord& record, base::Time now) {
  const auto member = members_.find(core::Number(record.id));
  if (member == members_.end()) return {};
  const std::vector<NotifyEvent> events = EventsOf(record);
  if (events.empty()) return {};
  const std::optional<core::TaskId> array = member->second;
  const bool ends = core::IsFinal(record.state);
  const bool last = ends && array && arrays_.at(*array).tasks == 1;
  if (ends && array) arrays_.at(*array).ended[record.id] = record.state;
  std::vector<store::Notice> notices;
  const Result<store::StoredTask> stored = store_.Get(record.id);
  const Result<task::TaskSpec> spec =
      stored ? task::SpecFromJsonText(stored->spec_json) : std::unexpected(stored.error());
  if (!spec) base::LogWarn("notice_without_spec", {{"task", core::Number(record.id)}});
  const std::string host = base::ShortHostName();
  // The end of an array is reported when its last task ends, in addition to that task's own events.
  std::vector<std::vector<NotifyEvent>> lists = {events};
  if (last) lists = {{NotifyEvent::kEnd}, events};
  for (const auto& list : lists) {
    for (const task::NotifyRule& rule : spec ? spec->notify : std::vector<task::NotifyRule>{}) {
      const bool apart = &list != &lists.back();
      if (apart && rule.each_task) continue;
      const std::optional<NotifyEvent> event = Choose(rule, list, array, last);
      if (!event) continue;
      const bool of_array = array && !rule.each_task;
      const std::string word(base::WordOf(*event));
      const std::string name = spec->array_index && !of_array
                                   ? fmt::format("{}[{}]", stored->name, *spec->array_index)
                                   : stored->name;
      const std::string text = of_array && *event == NotifyEvent::kEnd
                                   ? ArrayText(*array, name, host)
                                   : TextOf(record, name, *event, host);
      store::Notice notice{
          .task = of_array ? *array : record.id,
          .uid = record.request->uid,
          .event = word,
          .target = rule.target,
          .message = base::DumpJson(MessageOf(record, *stored, *spec, word, text, host)),
          .made = now,
          .next = now};
      Judge(notice, now);
      notices.push_back(std::move(notice));
    }
  }
  if (ends) Leave(record.id);
  return notices;
}

}  // namespace carma::daemon
