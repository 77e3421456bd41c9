// Tasks that ran out of memory: their next claim, and GPUs kept free for them.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "core/scheduler/scheduler_state.h"

namespace carma::core {
namespace {

constexpr Duration kMaxBackoff{600'000};

Duration Backoff(Duration first, int ooms) {
  Duration backoff = first;
  for (int i = 1; i < ooms && backoff < kMaxBackoff; ++i) backoff *= 2;
  return std::min(backoff, kMaxBackoff);
}

}  // namespace

void Scheduler::State::EndOutOfMemory(TaskRecord& task, std::int64_t tried_mib) {
  lessons.AtLeast(task, std::min(RetryDemandMib(task, tried_mib), MostFor(task.request)));
  const std::string told = task.exit->detail.empty() ? "" : " (" + task.exit->detail + ")";
  if (!config.every_failure_is_oom && FailedAloneOnLargest(task)) {
    ++task.ooms;
    return Finish(task, TaskState::kOutOfMemory,
                  {ReasonCode::kOutOfMemory,
                   "Ran out of GPU memory although it was alone on the largest GPU" + told + "."});
  }
  if (task.ooms >= task.request->max_recoveries) {
    ++task.ooms;
    return Finish(task, TaskState::kOutOfMemory,
                  {ReasonCode::kOutOfMemory,
                   fmt::format("Ran out of GPU memory {} time{}, no retry is left{}.", task.ooms,
                               task.ooms == 1 ? "" : "s", told)});
  }
  const std::string kept = KeptBelowGpu(task) ? fmt::format(": its promise kept it to {} MiB",
                                                            task.attempt->sharing.LimitMib())
                                              : "";
  Recover(task, {ReasonCode::kOutOfMemory, "Ran out of GPU memory" + kept + told + "."}, tried_mib);
}

void Scheduler::State::EndFailed(TaskRecord& task, Reason reason) {
  if (config.every_failure_is_oom && task.request->gpus > 0 &&
      task.ooms < task.request->max_recoveries) {
    return Recover(task, std::move(reason));
  }
  Finish(task, TaskState::kFailed, std::move(reason));
}

void Scheduler::State::Recover(TaskRecord& task, Reason reason, std::int64_t tried_mib) {
  ++task.ooms;
  RaiseDemand(task, tried_mib);
  const Duration backoff = Backoff(config.recovery_backoff, task.ooms);
  if (backoff > Duration{0}) task.not_before = now + backoff;
  rules->Crashed(task);
  reason.text.Edit() +=
      task.retry_on_idle_gpu
          ? fmt::format(" Retry {} of {} on an idle GPU.", task.ooms, task.request->max_recoveries)
          : fmt::format(" Retry {} of {} where {} are free.", task.ooms,
                        task.request->max_recoveries,
                        base::FormatMib(task.retry_free_mib.value_or(0)));
  Enqueue(task, QueueKind::kRecovery, std::move(reason));
}

bool Scheduler::State::FailedAloneOnLargest(const TaskRecord& task) const {
  if (LifeOf(task.id).shared || task.attempt->placement.empty() || KeptBelowGpu(task)) return false;
  const std::vector<std::int64_t> sizes_mib = UsableSizes(task.request);
  const std::int64_t largest_mib = sizes_mib.empty() ? 0 : sizes_mib.front();
  return std::all_of(task.attempt->placement.begin(), task.attempt->placement.end(),
                     [&](const Placement& each) {
                       return Number(each.gpu) < gpus.size() &&
                              gpus[Number(each.gpu)].info.UsableMib() >= largest_mib;
                     });
}

// Whether it ran into its own memory limit and not that of the GPU.
bool Scheduler::State::KeptBelowGpu(const TaskRecord& task) const {
  const std::int64_t limit_mib = task.attempt->sharing.LimitMib();
  return limit_mib > 0 && std::ranges::any_of(task.attempt->placement, [&](const Placement& each) {
           return Number(each.gpu) < gpus.size() &&
                  gpus[Number(each.gpu)].info.UsableMib() > limit_mib;
         });
}

std::vector<std::int64_t> Scheduler::State::UsableSizes(const TaskRequest& request) const {
  const GpuChoice choice(request, gpu_infos);
  std::vector<std::int64_t> usable_mib;
  usable_mib.reserve(gpus.size());
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    const GpuInfo& gpu = gpus[i].info;
    if ((request.gpus == 1 || !gpu.mig) && choice.Allows(GpuIndex{i}))
      usable_mib.push_back(gpu.UsableMib());
  }
  std::sort(usable_mib.begin(), usable_mib.end(), std::greater<>());
  return usable_mib;
}

std::int64_t Scheduler::State::MostFor(const TaskRequest& request) const {
  const std::vector<std::int64_t> sizes_mib = UsableSizes(request);
  const auto wanted = static_cast<std::size_t>(std::max(1, request.gpus));
  return sizes_mib.size() < wanted ? 0 : sizes_mib[wanted - 1];
}

// Unpromised memory on the fullest of its former GPUs: for a task without an estimate this is the
// only evidence of what was too little.
std::int64_t Scheduler::State::RoomItHadMib(const TaskRecord& task) const {
  std::optional<std::int64_t> least_mib;
  for (const Placement& placement : task.attempt->placement) {
    if (Number(placement.gpu) >= gpus.size()) continue;
    const std::int64_t free_mib = ledger.AccountOf(placement.gpu, PlateauFrom(now)).free_mib;
    least_mib = std::min(least_mib.value_or(free_mib), free_mib);
  }
  return least_mib.value_or(0);
}

// Its promise may have been below the bound because of its kind's lessons.
std::int64_t Scheduler::State::RetryDemandMib(const TaskRecord& task,
                                              std::int64_t tried_mib) const {
  const std::optional<std::int64_t> predicted_mib = NeedOf(config, task).memory_mib;
  std::int64_t had_mib = std::max(task.peak_mib, predicted_mib.value_or(0));
  if (!predicted_mib && !KeptBelowGpu(task)) had_mib = std::max(had_mib, RoomItHadMib(task));
  for (const Placement& placement : task.attempt->placement) {
    had_mib = std::max(had_mib, placement.claim_mib);
  }
  return had_mib + std::max(config.recovery_step_mib, tried_mib);
}

void Scheduler::State::RaiseDemand(TaskRecord& task, std::int64_t tried_mib) {
  // As many GPUs as it needs must have that much.
  const std::int64_t limit_mib = MostFor(task.request);
  std::int64_t smallest_mib = limit_mib;
  for (const Placement& placement : task.attempt->placement) {
    if (Number(placement.gpu) >= gpus.size()) continue;
    smallest_mib = std::min(smallest_mib, gpus[Number(placement.gpu)].info.UsableMib());
  }
  task.retry_free_mib.reset();
  task.retry_on_idle_gpu = true;
  const bool kept = KeptBelowGpu(task);
  if (config.recovery == RecoveryMode::kEscalate) {
    const std::int64_t wanted_mib = RetryDemandMib(task, tried_mib);
    const bool last = task.ooms == task.request->max_recoveries;
    task.retry_on_idle_gpu = last || wanted_mib > limit_mib;
    task.retry_free_mib = last ? limit_mib : std::min(wanted_mib, limit_mib);
  } else if (kept) {
    task.retry_free_mib = limit_mib;
  }
  // A GPU that was too small when empty will be too small again.
  if (!kept && !LifeOf(task.id).shared && smallest_mib < limit_mib) {
    task.retry_free_mib = std::max(task.retry_free_mib.value_or(0), smallest_mib + 1);
  }
}

// For a passed head, other GPUs may become the better choice, until it has been the head for
// pass_limit again.
bool Scheduler::State::MayKeepOthers(const TaskRecord& task) const {
  return task.queue == QueueKind::kMain && config.pass_limit &&
         now - passed.since < 2 * *config.pass_limit;
}

void Scheduler::State::UpdateReservation() {
  const std::set<QueueKey>& line = queue.Recovery();
  if (const std::optional<TaskId> id = recovery_hold.task()) {
    const TaskRecord* task = Held(*id);
    const bool waits = task != nullptr && task->state == TaskState::kQueued &&
                       (task->queue == QueueKind::kRecovery || passed.task == *id) &&
                       queue.PlaceOf(task->id) == Place::kEligible;
    const bool open = std::ranges::all_of(recovery_hold.gpus(), [this](GpuIndex gpu) {
      const GpuView view = ViewOf(gpu, now);
      return view.healthy && !view.drained;
    });
    if (waits && open && !MayKeepOthers(*task)) return;
    recovery_hold.Drop();
  }
  std::size_t looks = 0;
  for (const QueueKey& key : line) {
    if (++looks > kRecoveryLooks) return;
    const TaskRecord& task = tasks.at(key.task);
    if (now - task.queued_since < config.recovery_patience) continue;
    return recovery_hold.Keep(config, NeedNow(task), Views(now));
  }
  if (!config.pass_limit || !passed.task || now - passed.since < *config.pass_limit) return;
  // A head that no task may pass needs none.
  if (passed.times == 0 && FirstOnly()) return;
  // It may have been cancelled or held since then.
  if (queue.PlaceOf(*passed.task) != Place::kEligible) return;
  recovery_hold.Keep(config, NeedNow(tasks.at(*passed.task)), Views(now));
}

}  // namespace carma::core
