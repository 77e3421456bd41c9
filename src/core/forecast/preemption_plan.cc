#include "core/forecast/preemption_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/books/recovery_hold.h"

namespace carma::core {
namespace {

// A GPU's SM activity after one task has joined (sign 1) or left (-1). Under MPS, activities do not
// add up: two tasks that show 80 % each when alone show 95 % together.
double ActivityWith(SharingMethod sharing, double all, int sign, double one) {
  if (sharing != SharingMethod::kMps) return std::clamp(all + sign * one, 0.0, 1.0);
  constexpr double kFull = 0.9999;
  const double of_one = sign * Interference{}.smact_exponent;
  const double idle = (1 - std::min(kFull, all)) * std::pow(1 - std::min(kFull, one), of_one);
  return std::max(0.0, 1 - idle);
}

}  // namespace

PreemptionPlan::PreemptionPlan(const PreemptionPlan& other)
    : config_(other.config_), links_(other.links_), gpus_(other.gpus_) {
  for (Gpu& gpu : gpus_) Refresh(gpu);  // the copy's spans must refer to the copy
}

void PreemptionPlan::Add(const GpuView& view, std::vector<PlannedTask> tasks) {
  Gpu gpu{.view = view, .tasks = std::move(tasks)};
  const std::size_t ours = std::min(gpu.tasks.size(), view.residents.size());
  gpu.strangers.assign(view.residents.begin() + static_cast<std::ptrdiff_t>(ours),
                       view.residents.end());
  gpu.view.settled = true;
  gpus_.push_back(std::move(gpu));
  Refresh(gpus_.back());
}

// Updates a GPU's view. The view's spans refer to copies in `gpu`, because the plan outlives the
// data it was built from.
void PreemptionPlan::Refresh(Gpu& gpu) const {
  GpuView& view = gpu.view;
  gpu.residents.clear();
  gpu.users.clear();
  view.exclusive_task = false;
  view.sm_shares = 0;
  view.limited = false;
  for (const PlannedTask& each : gpu.tasks) {
    gpu.residents.push_back(each.load);
    gpu.users.push_back(each.uid);
    view.exclusive_task |= each.exclusive;
    view.sm_shares += each.sm_share;
    view.limited |= each.load.max_slowdown < kAnySlowdown;
  }
  gpu.residents.insert(gpu.residents.end(), gpu.strangers.begin(), gpu.strangers.end());
  view.residents = gpu.residents;
  view.outlook.Forget();
  view.users = gpu.users;
  view.tasks = static_cast<int>(gpu.tasks.size());
  const ThroughputEstimate outlook =
      ThroughputOf(gpu.residents, nullptr, SaturationOf({}, SharingOn(config_, view.mig)));
  view.delivered = outlook.delivered;
  view.slowest = outlook.slowest;
}

void PreemptionPlan::Leave(TaskId task) {
  for (Gpu& gpu : gpus_) {
    const auto at = std::ranges::find(gpu.tasks, task, &PlannedTask::task);
    if (at == gpu.tasks.end()) continue;
    GpuView& view = gpu.view;
    view.free_mib = std::min(view.total_mib, view.free_mib + at->promised_mib);
    view.claimed_mib = std::max<std::int64_t>(0, view.claimed_mib - at->promised_mib);
    if (view.sm_active)
      view.sm_active =
          ActivityWith(SharingOn(config_, view.mig), *view.sm_active, -1, at->load.load.sm_active);
    if (view.utilization)
      view.utilization = std::min(*view.utilization, view.sm_active.value_or(1));
    gpu.tasks.erase(at);
    gpu.opened = true;
    Refresh(gpu);
  }
}

std::vector<const PreemptionPlan::Gpu*> PreemptionPlan::Fitting(const Need& need) const {
  std::vector<const Gpu*> fitting;
  for (const Gpu& gpu : gpus_) {
    if (FitOf(config_, need, gpu.view) == Fit::kFits) fitting.push_back(&gpu);
  }
  return fitting;
}

std::vector<const PreemptionPlan::Gpu*> PreemptionPlan::Chosen(
    const Need& need, std::vector<const Gpu*> sorted) const {
  const auto wanted = static_cast<std::size_t>(need.gpus);
  if (!need.linked) {
    sorted.resize(sorted.size() < wanted ? 0 : wanted);
    return sorted;
  }
  std::vector<GpuLinks::Candidate> candidates;
  for (const Gpu* each : sorted)
    candidates.push_back({each->view.index, -static_cast<double>(candidates.size())});
  std::vector<const Gpu*> chosen;
  for (const GpuIndex gpu : links_.ChooseFor(need, std::move(candidates)))
    chosen.push_back(&gpus_[core::Number(gpu)]);
  return chosen;
}

bool PreemptionPlan::TakeIfOpened(const Need& need) {
  const bool may = std::ranges::any_of(gpus_, [&](const Gpu& gpu) {
    return gpu.opened && FitOf(config_, need, gpu.view) == Fit::kFits;
  });
  return may && Take(need);
}

void PreemptionPlan::NoteLooked() {
  for (Gpu& gpu : gpus_) gpu.opened = false;
}

bool PreemptionPlan::Take(const Need& need) {
  std::vector<const Gpu*> fitting = Fitting(need);
  std::ranges::stable_sort(fitting, std::greater<>(), [](const Gpu* gpu) {
    return std::pair(-gpu->view.tasks, gpu->view.free_mib);
  });
  fitting = Chosen(need, std::move(fitting));
  for (const Gpu* each : fitting) {
    Gpu& gpu = gpus_[core::Number(each->view.index)];
    const std::int64_t wanted_mib = std::max(need.memory_mib.value_or(0), need.retry_free_mib);
    gpu.tasks.push_back({.task = need.task,
                         .promised_mib = std::min(wanted_mib, gpu.view.free_mib),
                         .exclusive = need.exclusive || need.idle_gpu,
                         .sm_share = need.sm_share.value_or(0),
                         .load = OnPart(need.load, gpu.view),
                         .uid = need.uid});
    gpu.view.free_mib -= gpu.tasks.back().promised_mib;
    gpu.view.claimed_mib += gpu.tasks.back().promised_mib;
    if (gpu.view.sm_active)
      gpu.view.sm_active = ActivityWith(SharingOn(config_, gpu.view.mig), *gpu.view.sm_active, 1,
                                        gpu.tasks.back().load.load.sm_active);
    Refresh(gpu);
  }
  return !fitting.empty();
}

// Chooses GPUs for the task so that as few tasks as possible must leave. Returns those tasks.
std::vector<TaskId> PreemptionPlan::LeaversOf(const Need& need,
                                              const std::vector<const Gpu*>& fitting,
                                              const std::vector<TaskId>& leaving) const {
  const auto is_there = [](const Gpu& gpu, TaskId task) {
    return std::ranges::find(gpu.tasks, task, &PlannedTask::task) != gpu.tasks.end();
  };
  std::vector<const Gpu*> by_leavers;
  for (const Gpu* each : fitting) by_leavers.push_back(&gpus_[core::Number(each->view.index)]);
  std::ranges::stable_sort(by_leavers, {}, [&](const Gpu* gpu) {
    return std::ranges::count_if(leaving, [&](TaskId task) { return is_there(*gpu, task); });
  });
  by_leavers = Chosen(need, std::move(by_leavers));
  std::vector<TaskId> there;
  for (const TaskId task : leaving) {
    if (std::ranges::any_of(by_leavers, [&](const Gpu* gpu) { return is_there(*gpu, task); }))
      there.push_back(task);
  }
  return there;
}

void PreemptionPlan::KeepFor(const Need& need) {
  std::vector<GpuView> views;
  for (const Gpu& gpu : gpus_) views.push_back(gpu.view);
  RecoveryHold recovery_hold;
  recovery_hold.Keep(config_, links_, need, views);
  for (Gpu& gpu : gpus_)
    gpu.view.reserved_for =
        recovery_hold.Keeps(gpu.view.index) ? recovery_hold.task() : std::optional<TaskId>();
}

void PreemptionPlan::LetGo(TaskId kept_for) {
  for (Gpu& gpu : gpus_) {
    if (gpu.view.reserved_for != kept_for) continue;
    gpu.view.reserved_for.reset();
    gpu.opened = true;
  }
}

std::map<TaskId, double> PreemptionPlan::Slowdowns() const {
  std::map<TaskId, double> slowest;
  std::vector<double> slowdowns;
  for (const Gpu& gpu : gpus_) {
    SlowdownsOf(gpu.residents, SaturationOf({}, SharingOn(config_, gpu.view.mig)), slowdowns);
    for (std::size_t i = 0; i < gpu.tasks.size(); ++i) {
      double& of_task = slowest.try_emplace(gpu.tasks[i].task, 0).first->second;
      of_task = std::max(of_task, slowdowns[i] / gpu.view.pace);
    }
  }
  return slowest;
}

bool PreemptionPlan::FitsWithout(const Need& need, std::span<const TaskId> gone) const {
  PreemptionPlan without(*this);
  for (const TaskId each : gone) without.Leave(each);
  return without.Fits(need);
}

std::optional<std::vector<TaskId>> PreemptionPlan::WhoMustLeave(
    const Need& need, std::span<const TaskId> candidates) const {
  PreemptionPlan without(*this);
  std::vector<TaskId> leaving;
  for (const TaskId each : candidates) {
    if (without.Fits(need)) break;
    without.Leave(each);
    leaving.push_back(each);
  }
  if (!without.Fits(need)) return std::nullopt;
  leaving = LeaversOf(need, without.Fitting(need), leaving);
  for (std::size_t i = 0; i < leaving.size();) {
    std::vector<TaskId> others = leaving;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (FitsWithout(need, others)) {
      leaving = std::move(others);
    } else {
      ++i;
    }
  }
  return leaving;
}

}  // namespace carma::core
