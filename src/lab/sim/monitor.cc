// Takes samples as the daemons' monitors do.
#include "lab/sim/monitor.h"

#include <algorithm>

#include "core/books/activity.h"

namespace carma::sim {
namespace {

constexpr base::Duration kLastMoment{1};

}  // namespace

Monitor::Monitor(const MonitorOptions& options, const Layout& layout, const Machines& machines)
    : options_(options), layout_(layout), machines_(machines), observed_(layout.gpu_count()) {}

base::Time Monitor::TickAfter(base::Time when) const {
  const std::int64_t ticks = (when + kLastMoment - kDaemonsStart) / options_.period;
  return kDaemonsStart + (ticks + 1) * options_.period - kLastMoment;
}

core::GpuSampled Monitor::SampleAsLast(std::uint32_t gpu, base::Time taken) const {
  const Observed& observed = observed_[gpu];
  const base::Time from = std::max(kDaemonsStart, taken - options_.window);
  return {core::GpuIndex{gpu - layout_.servers()[layout_.ServerOf(gpu)].first_gpu},
          {.taken = taken,
           .window_from = from,
           .used_mib = observed.used_mib,
           .sm_active = machines_.gpu(gpu).MeanActivity(from, taken),
           .tasks_mib = observed.tasks_mib}};
}

core::GpuSampled Monitor::Sample(std::uint32_t gpu, base::Time taken) {
  Observed& observed = observed_[gpu];
  if (HasChanged(gpu)) {
    observed.tasks_mib.clear();
    observed.used_mib = machines_.gpu(gpu).used_mib();
    for (const Occupant& each : machines_.gpu(gpu).occupants())
      observed.tasks_mib.emplace_back(machines_.IdOf(each), each.mib);
    observed.changes = machines_.gpu(gpu).changes();
  }
  observed.sampled = taken;
  ++samples_;
  return SampleAsLast(gpu, taken);
}

bool Monitor::IsMoving(std::uint32_t gpu) const {
  // A new task is first sampled up to one period after its start. Its activity is known after the
  // warm-up and one more window.
  const base::Duration settles = options_.window + options_.period + core::kActivityWarmUp;
  return machines_.Loading(gpu) > 0 ||
         observed_[gpu].sampled < machines_.gpu(gpu).changed() + settles;
}

// True if further samples could allow a waiting task to start. Samples stay the same as long as
// nothing on the server changes.
bool Monitor::MayOpen(std::uint32_t index, const Queue& queue) const {
  if (queue.recovering > 0) return true;
  return queue.waiting > 0 &&
         std::ranges::any_of(layout_.GpusOf(index), [this](auto gpu) { return IsMoving(gpu); });
}

void Monitor::Begin(std::uint32_t index, std::vector<core::Event>& events) const {
  for (const std::uint32_t gpu : layout_.GpusOf(index))
    events.emplace_back(SampleAsLast(gpu, kDaemonsStart));
}

void Monitor::CatchUp(std::uint32_t index, base::Time now, const Queue& queue,
                      std::vector<core::Event>& events) {
  if (!OnDemand() || queue.waiting > 0) return;
  const base::Time taken = std::max(kDaemonsStart, TickAfter(now) - options_.period);
  for (const std::uint32_t gpu : layout_.GpusOf(index)) {
    if (observed_[gpu].sampled >= taken || !IsMoving(gpu)) continue;
    // Changes after this tick are seen at the next tick.
    events.emplace_back(SampleAsLast(gpu, taken));
    observed_[gpu].sampled = taken;
    ++samples_;
  }
}

void Monitor::Tick(std::uint32_t index, base::Time now, const Queue& queue,
                   std::vector<core::Event>& events) {
  const bool may_open = MayOpen(index, queue);
  for (const std::uint32_t gpu : layout_.GpusOf(index)) {
    if (OnDemand() && !HasChanged(gpu) && !may_open) continue;
    events.emplace_back(Sample(gpu, now));
  }
  // A task in the recovery queue might have waited long enough to be retried.
  if (events.empty() && queue.recovering > 0) events.emplace_back(core::WakeUp{});
}

bool Monitor::WantsTick(std::uint32_t index, const Queue& queue) const {
  if (options_.mode == MonitorOptions::Mode::kNone) return false;
  if (!OnDemand() || MayOpen(index, queue)) return true;
  return std::ranges::any_of(layout_.GpusOf(index), [this](auto gpu) { return HasChanged(gpu); });
}

}  // namespace carma::sim
