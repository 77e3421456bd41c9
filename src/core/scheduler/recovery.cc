#include "core/scheduler/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "core/scheduler/expecting.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/line.h"
#include "core/scheduler/placement.h"

namespace carma::core {
namespace {

constexpr Duration kMaxBackoff{600'000};

Duration Backoff(Duration first, int ooms) {
  Duration backoff = first;
  for (int i = 1; i < ooms && backoff < kMaxBackoff; ++i) backoff *= 2;
  return std::min(backoff, kMaxBackoff);
}

// True if the task's memory limit was below its GPU's memory, so the task hit the limit first.
bool KeptBelowGpu(const State& state, const TaskRecord& task) {
  const std::int64_t limit_mib = task.attempt->sharing.LimitMib();
  return limit_mib > 0 && std::ranges::any_of(task.attempt->placement, [&](const Placement& each) {
           return Number(each.gpu) < state.gpus.all.size() &&
                  state.gpus.all[Number(each.gpu)].info.UsableMib() > limit_mib;
         });
}

// The unpromised memory on the fullest GPU of the task's last attempt. If the task has no estimate,
// this is the only amount known to be too small.
std::int64_t RoomItHadMib(const State& state, const TaskRecord& task) {
  std::optional<std::int64_t> least_mib;
  for (const Placement& placement : task.attempt->placement) {
    if (Number(placement.gpu) >= state.gpus.all.size()) continue;
    const std::int64_t free_mib =
        state.ledger.AccountOf(placement.gpu, PlateauFrom(state, state.now)).free_mib;
    least_mib = std::min(least_mib.value_or(free_mib), free_mib);
  }
  return least_mib.value_or(0);
}

// Memory that a retry requires. It exceeds the predicted bound even if lessons from similar tasks
// had lowered the previous promise.
std::int64_t RetryDemandMib(const State& state, const TaskRecord& task, std::int64_t tried_mib) {
  const std::optional<std::int64_t> predicted_mib = NeedOf(state.config, task).memory_mib;
  std::int64_t had_mib = std::max(task.peak_mib, predicted_mib.value_or(0));
  if (!predicted_mib && !KeptBelowGpu(state, task))
    had_mib = std::max(had_mib, RoomItHadMib(state, task));
  for (const Placement& placement : task.attempt->placement)
    had_mib = std::max(had_mib, placement.claim_mib);
  return had_mib + std::max(state.config.recovery_step_mib, tried_mib);
}

void RaiseDemand(State& state, TaskRecord& task, std::int64_t tried_mib) {
  // The demand must not exceed the memory that the required number of GPUs can provide.
  const std::int64_t limit_mib = MostFor(state, task.request);
  std::int64_t smallest_mib = limit_mib;
  for (const Placement& placement : task.attempt->placement) {
    if (Number(placement.gpu) >= state.gpus.all.size()) continue;
    smallest_mib = std::min(smallest_mib, state.gpus.all[Number(placement.gpu)].info.UsableMib());
  }
  task.retry_free_mib.reset();
  task.retry_on_idle_gpu = true;
  const bool kept = KeptBelowGpu(state, task);
  if (state.config.recovery == RecoveryMode::kEscalate) {
    const std::int64_t wanted_mib = RetryDemandMib(state, task, tried_mib);
    const bool last = task.ooms == task.request->max_recoveries;
    task.retry_on_idle_gpu = last || wanted_mib > limit_mib;
    task.retry_free_mib = last ? limit_mib : std::min(wanted_mib, limit_mib);
  } else if (kept) {
    task.retry_free_mib = limit_mib;
  }
  // If the task was alone on a GPU that was too small, that GPU will be too small again.
  if (!kept && !state.LifeOf(task.id).shared && smallest_mib < limit_mib)
    task.retry_free_mib = std::max(task.retry_free_mib.value_or(0), smallest_mib + 1);
}

// For tried_mib, see TaskExited.
void Recover(State& state, TaskRecord& task, Reason reason, std::int64_t tried_mib = 0) {
  ++task.ooms;
  RaiseDemand(state, task, tried_mib);
  const Duration backoff = Backoff(state.config.recovery_backoff, task.ooms);
  if (backoff > Duration{0}) task.not_before = state.now + backoff;
  state.rules->Crashed(task);
  reason.text.Edit() +=
      task.retry_on_idle_gpu
          ? fmt::format(" Retry {} of {} on an idle GPU.", task.ooms, task.request->max_recoveries)
          : fmt::format(" Retry {} of {} once {} is free.", task.ooms, task.request->max_recoveries,
                        base::FormatMib(task.retry_free_mib.value_or(0)));
  state.Enqueue(task, QueueKind::kRecovery, std::move(reason));
}

// The usable memory of each GPU that the task may use, largest first.
std::vector<std::int64_t> UsableSizes(const State& state, const TaskRequest& request) {
  const GpuChoice choice(request, state.gpus.infos);
  std::vector<std::int64_t> usable_mib;
  usable_mib.reserve(state.gpus.all.size());
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i) {
    const GpuInfo& gpu = state.gpus.all[i].info;
    if ((request.gpus == 1 || !gpu.mig) && choice.Allows(GpuIndex{i}))
      usable_mib.push_back(gpu.UsableMib());
  }
  std::ranges::sort(usable_mib, std::greater<>());
  return usable_mib;
}

bool FailedAloneOnLargest(const State& state, const TaskRecord& task) {
  if (state.LifeOf(task.id).shared || task.attempt->placement.empty() || KeptBelowGpu(state, task))
    return false;
  const std::vector<std::int64_t> sizes_mib = UsableSizes(state, task.request);
  const std::int64_t largest_mib = sizes_mib.empty() ? 0 : sizes_mib.front();
  return std::ranges::all_of(task.attempt->placement, [&](const Placement& each) {
    return Number(each.gpu) < state.gpus.all.size() &&
           state.gpus.all[Number(each.gpu)].info.UsableMib() >= largest_mib;
  });
}

// True if better GPUs may still replace those kept for an overtaken head. False once the task has
// been the head for twice pass_limit.
bool MayKeepOthers(const State& state, const TaskRecord& task) {
  return task.queue == QueueKind::kMain && state.config.pass_limit &&
         state.now - state.heads.passed.since < 2 * *state.config.pass_limit;
}

}  // namespace

void EndOutOfMemory(State& state, TaskRecord& task, std::int64_t tried_mib) {
  // An allocation larger than any GPU is a bug in this task and says nothing about similar tasks.
  const std::int64_t most_mib = MostFor(state, task.request);
  const std::int64_t demand_mib = RetryDemandMib(state, task, tried_mib > most_mib ? 0 : tried_mib);
  state.lessons.AtLeast(task, std::min(demand_mib, most_mib));
  const std::string told = task.exit->detail.empty() ? "" : " (" + task.exit->detail + ")";
  if (!state.config.every_failure_is_oom && FailedAloneOnLargest(state, task)) {
    ++task.ooms;
    return state.Finish(
        task, TaskState::kOutOfMemory,
        {ReasonCode::kOutOfMemory,
         "Ran out of GPU memory even though it was alone on the largest GPU" + told + "."});
  }
  if (task.ooms >= task.request->max_recoveries) {
    ++task.ooms;
    return state.Finish(
        task, TaskState::kOutOfMemory,
        {ReasonCode::kOutOfMemory,
         fmt::format("Ran out of GPU memory {}{}{}.", base::Counted(task.ooms, "time"),
                     task.request->max_recoveries > 0 ? "; no retries left" : "", told)});
  }
  const std::string kept = KeptBelowGpu(state, task)
                               ? fmt::format(": its promise limited it to {}",
                                             base::FormatMib(task.attempt->sharing.LimitMib()))
                               : "";
  Recover(state, task, {ReasonCode::kOutOfMemory, "Ran out of GPU memory" + kept + told + "."},
          tried_mib);
}

void EndFailed(State& state, TaskRecord& task, Reason reason) {
  if (state.config.every_failure_is_oom && task.request->gpus > 0 &&
      task.ooms < task.request->max_recoveries) {
    return Recover(state, task, std::move(reason));
  }
  state.Finish(task, TaskState::kFailed, std::move(reason));
}

std::int64_t MostFor(const State& state, const TaskRequest& request) {
  const std::vector<std::int64_t> sizes_mib = UsableSizes(state, request);
  const auto wanted = static_cast<std::size_t>(std::max(1, request.gpus));
  if (sizes_mib.size() < wanted) return 0;
  const std::int64_t most_mib = sizes_mib[wanted - 1];
  return std::min(most_mib, state.limits.MostMibFor(request).value_or(most_mib));
}

void CutToGpus(const State& state, TaskRecord& task) {
  if (!task.estimate || !task.estimate->predicted_mib) return;
  const std::int64_t most_mib = MostFor(state, task.request);
  if (most_mib == 0 || task.estimate->peak_mib <= most_mib) return;
  Estimate cut = *task.estimate;
  cut.peak_mib = most_mib;
  cut.predicted_mib = std::min(*cut.predicted_mib, most_mib);
  task.estimate = std::optional<Estimate>(std::move(cut));
}

void UpdateReservation(State& state) {
  const std::set<QueueKey>& line = state.queue.Recovery();
  if (const std::optional<TaskId> id = state.recovery_hold.task()) {
    const TaskRecord* task = state.Held(*id);
    const bool waits = task != nullptr && task->state == TaskState::kQueued &&
                       (task->queue == QueueKind::kRecovery || state.heads.passed.task == *id) &&
                       state.queue.PlaceOf(task->id) == Place::kEligible;
    const auto is_open = [&](GpuIndex gpu) {
      const GpuView view = ViewOf(state, gpu, state.now);
      return view.healthy && !view.drained &&
             !BlockedByForeign(state.config, NeedNow(state, *task), view);
    };
    if (waits && std::ranges::all_of(state.recovery_hold.gpus(), is_open) &&
        !MayKeepOthers(state, *task) && !IsLimited(state, *task))
      return;
    state.recovery_hold.Drop();
  }
  std::size_t looks = 0;
  for (const QueueKey& key : line) {
    if (++looks > kRecoveryLooks) break;
    const TaskRecord& task = state.tasks.at(key.task);
    if (state.now - task.queued_since < state.config.recovery_patience) continue;
    if (!IsLimited(state, task) &&
        state.recovery_hold.Keep(state.config, state.gpus.links, NeedNow(state, task),
                                 Views(state, state.now)))
      return;
  }
  if (!state.config.pass_limit || !state.heads.passed.task ||
      state.now - state.heads.passed.since < *state.config.pass_limit)
    return;
  // No GPUs need to be kept for the head if no task may overtake it.
  if (TimesPassed(state) == 0 && FirstOnly(state)) return;
  // The head may have been cancelled or held since it was recorded.
  if (state.queue.PlaceOf(*state.heads.passed.task) != Place::kEligible) return;
  state.recovery_hold.Keep(state.config, state.gpus.links,
                           NeedNow(state, state.tasks.at(*state.heads.passed.task)),
                           Views(state, state.now));
}

}  // namespace carma::core
