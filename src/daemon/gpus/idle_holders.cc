#include "daemon/gpus/idle_holders.h"

#include <utility>

#include "daemon/gpus/monitor.h"
#include "daemon/gpus/policy_violations.h"

namespace carma::daemon {
namespace {

HolderSight SightOn(core::GpuIndex gpu, core::TaskId id, const Monitor& monitor, double below) {
  if (!monitor.Fresh(gpu) || monitor.LastReading(gpu)->processes_hidden)
    return HolderSight::kUnknown;
  const GpuUse& use = monitor.Use(gpu);
  const auto task = use.tasks.find(id);
  if (task == use.tasks.end()) return HolderSight::kIdle;
  const TaskUse& own = task->second;
  if (own.memory_told && own.used_mib == 0) return HolderSight::kIdle;
  const gpu::Reading& reading = *monitor.LastReading(gpu);
  const std::optional<double> activity =
      reading.sm_active ? reading.sm_active : reading.utilization;
  if (activity && *activity <= below) return HolderSight::kIdle;
  if (own.kernel_time) return *own.kernel_time > 0 ? HolderSight::kBusy : HolderSight::kIdle;
  return activity ? HolderSight::kBusy : HolderSight::kUnknown;
}

}  // namespace

std::string_view IdleActionName(core::IdleAction action) {
  switch (action) {
    case core::IdleAction::kTell:
      return "tell";
    case core::IdleAction::kShare:
      return "share";
    case core::IdleAction::kEnd:
      return "end";
  }
  return "tell";
}

Holder LookAtHolder(const core::TaskRecord& record, const Monitor& monitor, double below) {
  // A task without GPUs is never an idle holder.
  const HolderSight none =
      record.attempt->placement.empty() ? HolderSight::kBusy : HolderSight::kIdle;
  Holder holder{record.id, record.attempt->number, record.attempt->idle_since, none};
  for (const core::Placement& placement : record.attempt->placement) {
    const HolderSight sight = SightOn(placement.gpu, record.id, monitor, below);
    if (sight == HolderSight::kBusy) holder.sight = HolderSight::kBusy;
    if (sight == HolderSight::kUnknown && holder.sight == HolderSight::kIdle)
      holder.sight = HolderSight::kUnknown;
  }
  if (!WrongGpus(record, monitor).empty()) holder.sight = HolderSight::kBusy;
  return holder;
}

std::optional<core::TaskIdle> IdleHolders::TakeOne(base::Time now, const Holder& holder,
                                                   Watched& watched) {
  const bool gap = now - std::exchange(watched.looked, now) > gap_;
  if (holder.sight == HolderSight::kBusy) {
    watched.idle_since.reset();
    if (!std::exchange(watched.told, false)) return std::nullopt;
    return core::TaskIdle{holder.id, holder.attempt, std::nullopt};
  }
  if (watched.told) return std::nullopt;
  if (gap || holder.sight == HolderSight::kUnknown) watched.idle_since.reset();
  if (holder.sight == HolderSight::kUnknown) return std::nullopt;
  if (!watched.idle_since) watched.idle_since = now;
  if (now - *watched.idle_since < after_) return std::nullopt;
  watched.told = true;
  return core::TaskIdle{holder.id, holder.attempt, watched.idle_since};
}

std::vector<core::TaskIdle> IdleHolders::Take(base::Time now, const std::vector<Holder>& holders) {
  std::map<core::TaskId, Watched> before = std::exchange(watched_, {});
  std::vector<core::TaskIdle> events;
  for (const Holder& holder : holders) {
    Watched watched{holder.attempt, now, std::nullopt, false};
    // An earlier carmad may have already reported this task as an idle holder.
    watched.told = holder.idle_since.has_value();
    if (const auto old = before.find(holder.id);
        old != before.end() && old->second.attempt == holder.attempt) {
      watched = old->second;
    }
    if (std::optional<core::TaskIdle> event = TakeOne(now, holder, watched))
      events.push_back(*event);
    watched_[holder.id] = watched;
  }
  return events;
}

}  // namespace carma::daemon
