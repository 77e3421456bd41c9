// What the monitor sees, and when it informs the core.
//
// Samples are taken in the last millisecond of each period. Most of them cannot change a decision:
// made on demand, a GPU is sampled at the first tick after each change (so that the core learns of
// its memory when it would have), at every tick while somebody waits and something moves, and once
// before a decision that comes after a quiet time. The core then decides as if it had seen every
// sample.
#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "core/books/activity.h"
#include "lab/sim/chance.h"
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
    observed.tasks_mib.clear();
    observed.used_mib = gpus_[gpu].used_mib();
    for (const Occupant& each : gpus_[gpu].occupants()) {
      observed.tasks_mib.emplace_back(jobs_[each.job].id, each.mib);
    }
    observed.unsampled = false;
  }
  observed.sampled = taken;
  ++totals_.samples;
  return SampleAsLast(gpu, taken);
}

bool Simulation::IsMoving(const Observed& observed) const {
  // A new task is first seen up to a period after it started. The GPU has settled once a whole
  // window lies after that, and its activity is known after one more such window.
  const base::Duration settles = options_.monitor.window + options_.monitor.period + core::kWarmUp;
  return observed.unseen > 0 || observed.sampled < observed.changed + settles;
}

// While nothing on the server changes, all samples are the same.
bool Simulation::MayOpen(const Node& node) const {
  if (node.recovering > 0) return true;
  const std::span<const Observed> its(observed_.data() + node.first_gpu, node.gpu_count);
  return node.waiting > 0 &&
         std::ranges::any_of(its, [this](const Observed& each) { return IsMoving(each); });
}

// As task/progress/tracker.h estimates the end: by the mean speed of the attempt.
void Simulation::ShowProgress(Node& node) {
  constexpr base::Duration kGap{30'000}, kFirst{60'000};
  const ShownProgress& shown = options_.progress;
  if (shown.share <= 0 || now_ < node.progress_shown + kGap) return;
  node.progress_shown = now_;
  std::map<core::TaskId, base::Duration> left;
  for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + node.gpu_count; ++gpu) {
    for (const Occupant& each : gpus_[gpu].occupants()) {
      const Job& job = jobs_[each.job];
      const base::Duration span = now_ - job.allocated;
      if (job.phase != Phase::kComputing || span < kFirst) continue;
      base::Rng rng = Chance(options_.seed + 1'000'003, Draw::kProfile, core::Number(job.id));
      if (rng.Uniform() >= shown.share || span % shown.every > shown.every - shown.evaluates)
        continue;
      const double left_s = job.left_s - job.pace * base::Seconds(now_ - job.since);
      const double speed = (job.work_s - left_s) / base::Seconds(span);
      const auto turn = static_cast<std::uint64_t>(span / shown.every);
      base::Rng wrong =
          Chance(options_.seed + 1'000'003, Draw::kNoise, core::Number(job.id) * 1000 + turn);
      if (speed <= 0) continue;
      left[job.id] = base::Duration(static_cast<std::int64_t>(
          1000 * std::max(0.0, left_s) / speed * std::exp(shown.noise * wrong.Normal())));
    }
  }
  if (!left.empty()) events_.emplace_back(core::ProgressSeen{{left.begin(), left.end()}});
}

void Simulation::CatchUp(std::uint32_t index) {
  Node& node = nodes_[index];
  if (options_.progress.share > 0) ShowProgress(node);
  if (!OnDemand() || node.waiting > 0) return;
  const base::Time taken = TickAtOrBefore(now_);
  for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + node.gpu_count; ++gpu) {
    Observed& observed = observed_[gpu];
    if (observed.sampled >= taken || !IsMoving(observed)) continue;
    // Changes after that tick will be seen by the next one.
    events_.emplace_back(SampleAsLast(gpu, taken));
    observed.sampled = taken;
    ++totals_.samples;
  }
}

// How many of the server's cores its tasks keep busy.
core::HostSampled Simulation::HostSampleOf(const Node& node) const {
  core::HostSampled sample{.cpus = options_.host.cores,
                           .used_cpus = std::min(options_.host.cores, node.wanted_cores)};
  std::map<core::TaskId, double> cpus;
  for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + node.gpu_count; ++gpu) {
    for (const Occupant& each : gpus_[gpu].occupants()) {
      const Job& job = jobs_[each.job];
      cpus[job.id] += CoresOf(job) / job.arrival->workload->gpus * node.host_factor;
    }
  }
  sample.tasks_cpus.assign(cpus.begin(), cpus.end());
  return sample;
}

void Simulation::Tick(std::uint32_t index) {
  Node& node = nodes_[index];
  const bool may_open = MayOpen(node);
  if (std::exchange(node.host_changed, false)) events_.emplace_back(HostSampleOf(node));
  for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + node.gpu_count; ++gpu) {
    if (OnDemand() && !observed_[gpu].unsampled && !may_open) continue;
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
  bool wanted = !OnDemand() || MayOpen(node);
  for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + node.gpu_count; ++gpu)
    wanted |= observed_[gpu].unsampled;
  if (!wanted) return;
  node.next_tick = soon;
  timers_.Set(TickTimer(index), soon, TimerQueue::Rank::kObserve);
}

}  // namespace carma::sim
