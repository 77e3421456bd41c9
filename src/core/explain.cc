// Why a task waits, in words.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "core/scheduler_state.h"

namespace carma::core {
namespace {

// More sentences than these do not help a reader.
constexpr std::size_t kMaxSentences = 4;

Reason Summary(const std::vector<Verdict>& closed, int wanted, int fitting) {
  // GPUs that are too small for ever say nothing about what the task waits for, unless all are.
  std::vector<const Verdict*> telling;
  for (const Verdict& verdict : closed) {
    if (verdict.fit == Fit::kNotNow) telling.push_back(&verdict);
  }
  if (telling.empty()) {
    for (const Verdict& verdict : closed) telling.push_back(&verdict);
  }
  if (telling.empty()) return {ReasonCode::kResources, "No GPU is known."};
  Reason reason{telling.front()->reason.code, ""};
  if (wanted > 1) reason.text = fmt::format("Needs {} GPUs, {} can take it. ", wanted, fitting);
  for (std::size_t i = 0; i < telling.size(); ++i) {
    if (telling[i]->reason.code != reason.code) reason.code = ReasonCode::kResources;
    if (i >= kMaxSentences) continue;
    if (i > 0) reason.text += " ";
    reason.text += telling[i]->reason.text;
  }
  if (telling.size() > kMaxSentences) {
    reason.text += fmt::format(" And {} more.", telling.size() - kMaxSentences);
  }
  return reason;
}

}  // namespace

Verdict Scheduler::State::VerdictOn(const TaskRecord& task, const GpuView& view) const {
  const bool as_idle = config.idle_first && view.Idle();
  const Need need = NeedNow(task);
  return CheckGuards(config, as_idle ? rules->OnIdleGpu(need) : need, view);
}

Reason Scheduler::State::ReasonOf(const TaskRecord& task, Time at) const {
  if (task.state == TaskState::kSubmitted || task.state == TaskState::kEstimating) {
    return {ReasonCode::kEstimating, "Its memory need is being estimated."};
  }
  const std::optional<Place> place = queue.PlaceOf(task.id);
  if (task.state != TaskState::kQueued || !place) return task.reason;
  switch (*place) {
    case Place::kHeld:
      return {ReasonCode::kHeld, "Held until it is released."};
    case Place::kDependency:
      return UnmetDependency(task, tasks).value_or(Reason{});
    case Place::kTimed: {
      const std::string until = base::FormatTimeIso(EarliestStart(task));
      if (task.not_before && *task.not_before == EarliestStart(task)) {
        return {ReasonCode::kBackoff,
                fmt::format("Waits until {} before its next attempt. {}", until, task.reason.text)};
      }
      return {ReasonCode::kBeginTime, fmt::format("May not start before {}.", until)};
    }
    case Place::kOverlooked:
      return rules->WhyNotYet(task, at);
    case Place::kArray:
      return {ReasonCode::kArrayLimit,
              fmt::format("{} tasks of its array may run at once, and as many do or are next.",
                          task.request.array_limit)};
    case Place::kUnfit:
      return NeverFits(task.request, task.estimate).value_or(Reason{});
    case Place::kEligible:
      return ReasonInLine(task, at);
  }
  return task.reason;
}

bool Scheduler::State::IsLookedAt(const TaskRecord& task) const {
  int looks = 0;
  for (const QueueKey& key : queue.Line(QueueKind::kMain)) {
    if (key.task == task.id) return true;
    if (++looks == config.backfill) break;
  }
  return false;
}

Reason Scheduler::State::ReasonInLine(const TaskRecord& task, Time at) const {
  const std::set<QueueKey>& recovery = queue.Line(QueueKind::kRecovery);
  if (task.queue == QueueKind::kMain && config.recovery_blocks && !recovery.empty()) {
    return {ReasonCode::kPriority,
            fmt::format("Task {} waits for recovery and stops the queue, as published.",
                        recovery.begin()->task)};
  }
  const TaskId head = queue.Line(task.queue).begin()->task;
  if (task.queue == QueueKind::kMain && config.backfill > 1) {
    if (!IsLookedAt(task)) {
      return {ReasonCode::kPriority,
              fmt::format("More than {} tasks are before it in the queue.", config.backfill)};
    }
  } else if (rules->HeadOnly(task.queue) && head != task.id) {
    return {ReasonCode::kPriority, fmt::format("Task {} is first in the queue.", head)};
  }
  Reason reason = ReasonAtHead(task, at);
  if (passed.task == task.id && passed.times > 0) {
    reason.text +=
        fmt::format(" {} task{} started before it since it is first in line ({}).", passed.times,
                    passed.times == 1 ? "" : "s", base::FormatTimeIso(passed.since));
    if (config.pass_limit) {
      reason.text += fmt::format(" GPUs are kept for it from {} on.",
                                 base::FormatTimeIso(passed.since + *config.pass_limit));
    }
  }
  return reason;
}

Reason Scheduler::State::ReasonAtHead(const TaskRecord& task, Time at) const {
  std::vector<Verdict> closed;
  int fitting = 0;
  for (const GpuView& view : Views(at)) {
    Verdict verdict = VerdictOn(task, view);
    if (verdict.fit == Fit::kFits) {
      ++fitting;
    } else {
      closed.push_back(std::move(verdict));
    }
  }
  if (fitting < task.request.gpus) return Summary(closed, task.request.gpus, fitting);
  if (launch_trouble.on()) return {ReasonCode::kMachineTrouble, launch_trouble.Text()};
  if (waiting_pays && task.queue == QueueKind::kMain) {
    return {ReasonCode::kPriority,
            "It could start, but all end earlier if it waits for the next task to end."};
  }
  return rules->WhyNotYet(task, at);
}

}  // namespace carma::core
