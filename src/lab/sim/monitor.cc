// What the monitor sees, and when the core is told.
//
// Samples are taken in the last millisecond of each period. Most of them cannot change a decision:
// made on demand, a GPU is sampled at the first tick after each change (so that the core learns of
// its memory when it would have), at every tick while somebody waits and the window's mean still
// moves, and once before a decision that comes after a quiet time. A GPU that is closed until its
// window has seen the last placement is not sampled again before that, unless somebody leaves it.
// The core then decides as if it had seen every sample.
#include <algorithm>
#include <utility>

#include "lab/sim/simulation.h"

namespace carma::sim {
namespace {

constexpr base::Duration kLastMoment{1};

}  // namespace

base::Time Simulation::TickAtOrBefore(base::Time when) const {
  const base::Duration period = options_.monitor.period;
  const std::int64_t ticks = (when + kLastMoment - start_) / period;
  return ticks == 0 ? start_ : start_ + ticks * period - kLastMoment;
}

base::Time Simulation::TickAfter(base::Time when) const {
  const base::Duration period = options_.monitor.period;
  const std::int64_t ticks = (when + kLastMoment - start_) / period;
  return start_ + (ticks + 1) * period - kLastMoment;
}

void Simulation::Touch(std::uint32_t gpu) {
  observed_[gpu].changed = now_;
  observed_[gpu].unsampled = true;
}

core::GpuSampled Simulation::SampleAsLast(std::uint32_t gpu, base::Time taken) const {
  const Observed& observed = observed_[gpu];
  const base::Time from = std::max(start_, taken - options_.monitor.window);
  return {core::GpuIndex{gpu - nodes_[node_of_[gpu]].first_gpu},
          {.taken = taken,
           .window_from = from,
           .used_mib = observed.used_mib,
           .sm_active = gpus_[gpu].MeanActivity(from, taken),
           .tasks_mib = observed.tasks_mib}};
}

core::GpuSampled Simulation::Sample(std::uint32_t gpu, base::Time taken) {
  Observed& observed = observed_[gpu];
  if (observed.unsampled) {
    const auto before = std::exchange(observed.tasks_mib, {});
    observed.used_mib = gpus_[gpu].used_mib();
    for (const Occupant& each : gpus_[gpu].occupants()) {
      const core::TaskId id = jobs_[each.job].id;
      observed.tasks_mib.emplace_back(id, each.mib);
      const auto is_it = [id](const auto& known) { return known.first == id; };
      if (std::ranges::none_of(before, is_it)) observed.shown = taken;
    }
    observed.unsampled = false;
  }
  observed.sampled = taken;
  ++totals_.samples;
  return SampleAsLast(gpu, taken);
}

bool Simulation::IsMoving(const Observed& observed) const {
  // A newcomer is first seen up to a period after it has come, and the GPU has settled when the
  // window begins no earlier than that.
  const base::Duration settles = options_.monitor.window + options_.monitor.period;
  return observed.unseen > 0 || observed.sampled < observed.changed + settles;
}

bool Simulation::ClosesWhileSettling() const {
  const core::PolicyConfig& policy = options_.policy;
  const bool preempts = std::ranges::any_of(policy.classes, &core::QosClass::preempts);
  return OnDemand() && policy.settle && policy.pacing == core::Pacing::kImmediate &&
         !policy.min_gain && !policy.slots.length && !preempts &&
         options_.monitor.delay == base::Duration{0} &&
         options_.memory.load + options_.memory.crash_delay < policy.settle_timeout;
}

bool Simulation::IsSettling(const Observed& observed, base::Time taken) const {
  return closes_ && (observed.unseen > 0 || taken < observed.shown + options_.monitor.window);
}

void Simulation::CatchUp(std::uint32_t index, bool closed) {
  const Node& node = nodes_[index];
  if (!OnDemand() || (node.waiting > 0 && !closed)) return;
  const base::Time taken = TickAtOrBefore(now_);
  for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + node.gpu_count; ++gpu) {
    Observed& observed = observed_[gpu];
    if (observed.sampled >= taken || !IsMoving(observed)) continue;
    if (!closed && IsSettling(observed, taken)) continue;
    // Whatever has changed after that tick will be seen by the next one.
    events_.emplace_back(SampleAsLast(gpu, taken));
    observed.sampled = taken;
    ++totals_.samples;
  }
}

void Simulation::Tick(std::uint32_t index) {
  const Node& node = nodes_[index];
  for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + node.gpu_count; ++gpu) {
    const Observed& observed = observed_[gpu];
    const bool may_open = node.waiting > 0 && IsMoving(observed) && !IsSettling(observed, now_);
    if (OnDemand() && !observed.unsampled && !may_open) continue;
    events_.emplace_back(Sample(gpu, now_));
  }
  // A task that waits for recovery may have waited long enough.
  if (events_.empty() && node.recovering > 0) events_.emplace_back(core::WakeUp{});
  if (options_.monitor.delay == base::Duration{0}) return Tell(index);
  Node& later = nodes_[index];
  later.on_the_way.push_back({now_ + options_.monitor.delay, std::exchange(events_, {})});
  if (later.on_the_way.size() == 1) {
    timers_.Set(SampleTimer(index), later.on_the_way.front().arrive, TimerQueue::Rank::kObserve);
  }
  SetTick(index);
}

void Simulation::SetTick(std::uint32_t index) {
  if (options_.monitor.mode == MonitorOptions::Mode::kNone) return;
  Node& node = nodes_[index];
  const base::Time soon = TickAfter(now_);
  const bool is_set = timers_.IsSet(TickTimer(index));
  if (is_set && node.next_tick <= soon) return;
  std::optional<base::Time> next;
  if (!OnDemand() || node.recovering > 0) next = soon;
  for (std::uint32_t gpu = node.first_gpu; next != soon && gpu < node.first_gpu + node.gpu_count;
       ++gpu) {
    const Observed& observed = observed_[gpu];
    if (observed.unsampled) {
      next = soon;
    } else if (node.waiting > 0 && IsMoving(observed)) {
      if (closes_ && observed.unseen > 0) continue;  // its memory will show first
      const base::Time settled = TickAfter(observed.shown + options_.monitor.window - kLastMoment);
      const base::Time opens = closes_ ? std::max(soon, settled) : soon;
      next = next ? std::min(*next, opens) : opens;
    }
  }
  if (!next || (is_set && node.next_tick <= *next)) return;
  node.next_tick = *next;
  timers_.Set(TickTimer(index), *next, TimerQueue::Rank::kObserve);
}

}  // namespace carma::sim
