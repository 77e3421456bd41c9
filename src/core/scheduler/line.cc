// Which task of the main queue goes next.
#include <algorithm>
#include <functional>
#include <unordered_map>

#include "core/policy/same_need.h"
#include "core/scheduler/scheduler_state.h"

namespace carma::core {
namespace {

// Maximum number of tasks considered for GPUs that the tasks before them could never take.
constexpr std::size_t kBesideLooks = 1'000;

// A waiting task keeps the GPUs that it could take; the others are open to tasks behind it.
void CloseFor(const Need& need, const std::vector<GpuView>& views, std::vector<bool>& open) {
  for (const GpuView& view : views) {
    if (CouldEverTake(need, view)) open[Number(view.index)] = false;
  }
}

}  // namespace

LineUp Scheduler::State::Line(LineKind kind,
                              const std::optional<LineUp::Newcomer>& newcomer) const {
  const LineUp::Rules by{
      .order = config.order, .patience = config.fair.patience, .limited = limits.Concerns()};
  return LineUp(queue.Main(kind), shares, by, now, *this, newcomer);
}

const TaskRecord* Scheduler::State::Find(TaskId id) const {
  const auto at = tasks.find(id);
  return at == tasks.end() ? nullptr : &at->second;
}

double Scheduler::State::WouldTake(const TaskRecord& task) const {
  if (task.request->gpus == 0) {
    const HostNeed need = HostNeedOf(config, task.request);
    return host.PartOf(need.cpus, need.memory_mib);
  }
  const std::int64_t known_mib = task.estimate ? task.estimate->peak_mib : 0;
  const std::int64_t wanted_mib = std::max(known_mib, task.retry_free_mib.value_or(0));
  const std::int64_t largest_mib = gpu_sizes_mib.empty() ? 0 : std::ranges::max(gpu_sizes_mib);
  return RateOf(task, wanted_mib, largest_mib, KeepsGpusAlone(task));
}

std::optional<LimitHit> Scheduler::State::LimitOn(const TaskRecord& task, Time at) const {
  if (!limits.Concerns()) return std::nullopt;
  return limits.AgainstStart(task, WantsOf(task), at);
}

Limits::Wants Scheduler::State::WantsOf(const TaskRecord& task) const {
  if (limits.CountMemory()) return WantsOf(NeedNow(task));
  return {.gpus = task.request->gpus, .host = HostNeedOf(config, task.request)};
}

Limits::Wants Scheduler::State::WantsOf(const Need& need) const {
  const std::int64_t largest_mib = gpu_sizes_mib.empty() ? 0 : std::ranges::max(gpu_sizes_mib);
  const std::int64_t claim_mib = std::max(need.memory_mib.value_or(0), need.retry_free_mib);
  return {.gpus = need.gpus, .promised_mib = std::min(claim_mib, largest_mib), .host = need.host};
}

bool Scheduler::State::IsLimited(const TaskRecord& task) const {
  return LimitOn(task, now).has_value();
}

std::span<const Limits::BoundBy> Scheduler::State::BoundsOn(const TaskRecord& task) const {
  return limits.Bound(task.request);
}

bool Scheduler::State::IsLimited(const TaskRecord& task,
                                 std::span<const Limits::BoundBy> bounds) const {
  if (bounds.empty()) return false;
  return Limits::Against(bounds, WantsOf(task), now).has_value();
}

void Scheduler::State::NoteHead() {
  const std::optional<LineUp::Next> first = MainLine().Pop();
  if (!first) {
    passed = {};
  } else if (passed.task != first->task) {
    passed = {.task = first->task, .since = now};
  }
}

NoStartSnapshot Scheduler::State::LookNow(const std::vector<GpuView>& views) const {
  NoStartSnapshot look{.line = queue.changes(),
                       .host = host.changes(),
                       .lessons = lessons.changes(),
                       .limits = limits.changes(),
                       .booked = reservations.changes(),
                       .shares = shares.changes(),
                       .idle_cpus = idle_cpus};
  look.gpus.reserve(views.size());
  for (const GpuView& view : views)
    look.gpus.push_back(FingerprintOf(config, view, gpus[Number(view.index)].crowd));
  return look;
}

bool Scheduler::State::OpensNothingSince(const NoStartSnapshot& look) const {
  return look.host == no_start->host && look.lessons == no_start->lessons &&
         look.limits == no_start->limits && look.booked == no_start->booked &&
         std::ranges::equal(no_start->gpus, look.gpus, OpensNothing);
}

std::vector<bool> Scheduler::State::OpenedSince(const NoStartSnapshot& look) const {
  std::vector<bool> opened(look.gpus.size(), true);
  if (!no_start || no_start->gpus.size() != look.gpus.size() || config.require ||
      look.lessons != no_start->lessons || look.booked != no_start->booked) {
    return opened;
  }
  for (std::size_t i = 0; i < opened.size(); ++i)
    opened[i] = !OpensNothing(no_start->gpus[i], look.gpus[i]) ||
                taken_since.contains(GpuIndex{static_cast<std::uint32_t>(i)});
  return opened;
}

bool Scheduler::State::SameLineSince(const NoStartSnapshot& look) const {
  if (look.line != no_start->line) return false;
  const bool all = queue.Main().size <= static_cast<std::size_t>(config.backfill);
  if (config.order == QueueOrder::kFifo || all) return true;
  return look.shares == no_start->shares &&
         (!no_start->order_until || now < *no_start->order_until);
}

void Scheduler::State::StartInOrder(std::vector<GpuView>& views) {
  LineUp line = MainLine();
  std::unordered_multimap<std::size_t, Need> wanted;  // in vain: what follows takes GPUs
  TaskSet looked_at;
  int waiting = 0;
  while (waiting < config.backfill) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    const TaskId id = next->task;
    if (!refused.Contains(id)) {
      const Need need = NeedNow(*next->record);
      if (const std::optional<Time> eases = EasesAt(*next->record))
        next_easing = std::min(next_easing.value_or(*eases), *eases);
      const std::size_t hash = HashOf(need);
      const auto [from, to] = wanted.equal_range(hash);
      const bool asked =
          std::any_of(from, to, [&](const auto& each) { return AskTheSame(each.second, need); });
      if (!asked && TryStart(id, views)) {
        if (waiting > 0) ++passed.times;
        continue;
      }
      if (!asked) wanted.emplace(hash, need);
    }
    looked_at.Insert(id);
    ++waiting;
  }
  refused = std::move(looked_at);
}

void Scheduler::State::StartBeside(std::vector<GpuView>& views) {
  const auto looked_at = static_cast<std::size_t>(config.backfill);
  if (queue.Main().size <= looked_at) return;
  std::vector<bool> open(views.size(), true);
  LineUp line = MainLine();
  for (std::size_t place = 0; place < kBesideLooks; ++place) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) return;
    TaskRecord& task = tasks.at(next->task);
    if (place >= looked_at && StartOnOpen(task, open, views)) continue;
    CloseFor(NeedNow(task), views, open);
    if (std::ranges::none_of(open, std::identity())) return;
  }
}

bool Scheduler::State::StartOnOpen(TaskRecord& task, const std::vector<bool>& open,
                                   std::vector<GpuView>& views) {
  if (IsLimited(task) || !HostTakes(task.id, HostNeedOf(config, task.request))) return false;
  std::vector<GpuView> left;
  for (const GpuView& view : views) {
    if (open[Number(view.index)]) left.push_back(view);
  }
  std::optional<Choice> choice = ChooseByPolicy(task, left);
  if (!choice) return false;
  Start(task, *std::move(choice));
  Refresh(task.attempt->placement, views);
  return true;
}

bool Scheduler::State::HasPlaceBeside(const TaskRecord& task, Time at) const {
  if (config.pacing != Pacing::kImmediate) return false;
  const std::vector<GpuView> views = Views(at);
  std::vector<bool> open(views.size(), true);
  LineUp line = MainLine();
  for (std::size_t place = 0; place < kBesideLooks; ++place) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next || std::ranges::none_of(open, std::identity())) return false;
    if (next->task == task.id) break;
    CloseFor(NeedNow(*next->record), views, open);
  }
  const Need need = NeedNow(task);
  return std::ranges::count_if(views, [&](const GpuView& view) {
           return open[Number(view.index)] && CouldEverTake(need, view);
         }) >= need.gpus;
}

}  // namespace carma::core
