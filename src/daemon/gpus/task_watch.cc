#include "daemon/gpus/task_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

constexpr base::Duration kLeastGap{30'000};  // minimum for the `gap` of IdleHolders

std::unique_ptr<IdleHolders> MakeIdleHolders(const config::Settings& settings) {
  if (!settings.idle_after) return nullptr;
  return std::make_unique<IdleHolders>(*settings.idle_after,
                                       std::max(kLeastGap, 10 * settings.sample_period));
}

}  // namespace

std::string ToLine(const core::TaskIdle& idle, const store::StoredTask& stored, base::Time now,
                   core::IdleAction action) {
  const base::Duration idle_for = now - *idle.since;
  return base::DumpJson(
      {{"event", "idle_holder"},
       {"text", fmt::format("Task {} ({}) of {} has not used its GPUs for {}", idle.id,
                            base::Printable(stored.name, 100), base::Printable(stored.user, 100),
                            base::FormatSpan(idle_for))},
       {"task", core::Number(idle.id)},
       {"attempt", idle.attempt},
       {"name", stored.name},
       {"user", stored.user},
       {"uid", stored.record.request->uid},
       {"gpu_uuids", stored.gpu_uuids},
       {"idle_since_ms", base::ToMs(*idle.since)},
       {"now_ms", base::ToMs(now)},
       {"idle_s", base::Seconds(idle_for)},
       {"action", IdleActionName(action)}});
}

TaskWatch::TaskWatch(store::Store& store, base::Clock& clock, const config::Settings& settings,
                     Tell tell)
    : store_(store),
      clock_(clock),
      settings_(settings),
      idle_holders_(MakeIdleHolders(settings)),
      tell_(std::move(tell)) {}

void TaskWatch::Follow(const config::Settings& before) {
  if (settings_.idle_after != before.idle_after) idle_holders_ = MakeIdleHolders(settings_);
}

std::vector<core::TaskIdle> TaskWatch::Look(const std::vector<const core::TaskRecord*>& running,
                                            std::int64_t margin_mib, const Monitor& monitor) {
  FindPolicyViolations(running, margin_mib, monitor);
  if (!idle_holders_) return {};
  std::vector<Holder> holders;
  for (const core::TaskRecord* record : running)
    holders.push_back(LookAtHolder(*record, monitor, settings_.idle_below));
  std::vector<core::TaskIdle> news = idle_holders_->Take(clock_.Now(), holders);
  for (const core::TaskIdle& idle : news) {
    if (idle.since) TellIdleHolder(idle);
  }
  return news;
}

void TaskWatch::FindPolicyViolations(const std::vector<const core::TaskRecord*>& running,
                                     std::int64_t margin_mib, const Monitor& monitor) {
  std::vector<Sighting> over, elsewhere;
  for (const core::TaskRecord* record : running) {
    const int attempt = record->attempt->number;
    over.push_back({record->id, attempt, OverPromiseMib(*record, margin_mib, monitor) > 0});
    elsewhere.push_back({record->id, attempt, !WrongGpus(*record, monitor).empty()});
  }
  const std::set<core::TaskId> now_over = over_promise_.Take(over);
  const std::set<core::TaskId> now_elsewhere = wrong_device_.Take(elsewhere);
  for (const core::TaskRecord* record : running) {
    if (now_over.contains(record->id)) {
      base::LogWarn("over_promise", {{"task", record->id},
                                     {"attempt", record->attempt->number},
                                     {"over_mib", OverPromiseMib(*record, margin_mib, monitor)}});
    }
    if (now_elsewhere.contains(record->id)) {
      base::LogWarn("wrong_device",
                    {{"task", record->id},
                     {"attempt", record->attempt->number},
                     {"gpus", fmt::format("{}", fmt::join(WrongGpus(*record, monitor), ","))}});
    }
  }
}

void TaskWatch::TellIdleHolder(const core::TaskIdle& idle) {
  const Result<store::StoredTask> stored = store_.Get(idle.id);
  if (!stored) return;  // the task has probably just ended
  const base::Time now = clock_.Now();
  const core::IdleAction action = settings_.policy.idle_action;
  base::LogWarn("idle_holder", {{"task", idle.id},
                                {"user", stored->user},
                                {"idle_s", base::Seconds(now - *idle.since)},
                                {"action", IdleActionName(action)}});
  tell_(ToLine(idle, *stored, now, action));
}

}  // namespace carma::daemon
