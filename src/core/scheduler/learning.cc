#include "core/scheduler/learning.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/books/activity.h"
#include "core/books/settling.h"
#include "core/scheduler/recovery.h"

namespace carma::core {
namespace {

// If a predicted bound is at least this share of the largest GPU, the most likely value is promised
// instead of the bound (docs/server/policies.md).
constexpr double kMostOfGpu = 0.5;

// For this long after its start, a task is assumed to use its expected number of cores, even if it
// does not yet.
constexpr Duration kSeenWithin{60'000};

// A task with higher activity than this might use more SMs if it had them.
constexpr double kFull = 0.95;

// A limit on the slowdown is about neighbours. If every GPU that could ever take the task is a MIG
// instance, the limit is relative to the speed on the largest of them. Otherwise, the task would
// wait forever, and block the tasks behind it.
void AllowForInstances(const State& state, Need& need) {
  if (need.load.max_slowdown == kAnySlowdown) return;
  double most = 0;
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i) {
    const GpuInfo& info = state.gpus.all[i].info;
    const bool chosen = !need.choice || need.choice->Allows(GpuIndex{i});
    if (chosen && need.memory_mib.value_or(0) <= info.UsableMib())
      most = std::max(most, info.compute);
  }
  if (most <= 0) return;
  const double cramped = OnInstance(need.load, most).cramped;
  need.load.max_slowdown *= 1 + (cramped - 1) * need.load.doubt;
}

// Adds up the task's progress so far and sets its speed to the speed on its slowest GPU.
void NoteProgress(State& state, TaskId id) {
  Life& life = state.EditLife(id);
  life.done_s = DoneS(state, id);
  life.done_at = state.now;
  life.speed = 1;
  std::vector<double> slowdowns;
  for (const GpuIndex index : state.ledger.GpusOf(id)) {
    const GpuState& gpu = state.gpus.all[Number(index)];
    life.speed = std::min(life.speed, gpu.pace);
    const std::span<const Resident> residents = state.ledger.ResidentsOf(index);
    const auto at = static_cast<std::size_t>(std::ranges::find(residents, id, &Resident::task) -
                                             residents.begin());
    if (gpu.residents.size() <= at) continue;  // they are still being filled in
    SlowdownsOf(gpu.residents, SaturationOf({}, SharingOn(state.config, gpu.info.mig)), slowdowns);
    life.speed = std::min(life.speed, gpu.pace / slowdowns[at]);
  }
}

std::optional<double> ActivityNow(const State& state, TaskId id) {
  std::optional<double> most;
  for (const GpuIndex gpu : state.ledger.GpusOf(id)) {
    const std::span<const Resident> residents = state.ledger.ResidentsOf(gpu);
    const auto resident = std::ranges::find(residents, id, &Resident::task);
    if (resident->sm_active) most = std::max(most.value_or(0), *resident->sm_active);
  }
  return most;
}

// The highest peak on any GPU except the first, relative to the highest peak on any GPU
// (Profile::others_share), as observed in this attempt. Empty after a daemon restart, which
// preserves only the highest peak.
std::optional<double> OthersShare(const State& state, TaskId id) {
  return state.LifeOf(id).restored ? std::nullopt : state.ledger.OthersShareOf(id);
}

// Adds the activity observed so far to the attempt's sum.
void NoteActivity(State& state, TaskId id) {
  Life& life = state.EditLife(id);
  if (!life.active_from) life.active_from = state.now;
  life.activity_s += ActivityNow(state, id).value_or(0) * base::Seconds(state.now - life.active_at);
  life.active_at = state.now;
}

// Number of hardware threads that the task is expected to keep busy: the measured value of running
// tasks of its kind, else of earlier runs, else the mean per GPU over all running tasks.
double UsesCpus(const State& state, const TaskRecord& task) {
  if (!state.machine.use || task.request->gpus < 1) return 0;
  const Lesson* lesson = state.lessons.Of(task);
  const std::optional<double> own =
      lesson != nullptr && lesson->cpus ? lesson->cpus : task.profile->cpus;
  if (own) return *own * task.request->gpus;
  double sum = 0;
  int gpus_of = 0;
  for (const auto& [id, cpus] : state.machine.use->tasks_cpus) {
    const auto at = state.tasks.find(id);
    if (at == state.tasks.end() || at->second.request->gpus < 1) continue;
    sum += cpus;
    gpus_of += at->second.request->gpus;
  }
  return gpus_of == 0 ? 0 : sum / gpus_of * task.request->gpus;
}

// True if both the task's memory and its activity are known.
bool IsKnown(const State& state, const TaskRecord& task) {
  return !task.attempt->placement.empty() && task.attempt->placement.front().claim_mib > 0 &&
         ProfileNow(state, task).sm_active;
}

}  // namespace

Time PlateauFrom(const State& state, Time at) {
  return state.config.plateau_after ? at - *state.config.plateau_after : Time::min();
}

// Most samples show nothing new, so residents are checked only when the next plateau is due.
void LearnPlateaus(State& state) {
  if (!state.next_plateau || state.now < *state.next_plateau) return;
  state.next_plateau.reset();
  if (!state.config.plateau_after) return;
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i) {
    for (const Resident& resident : state.ledger.ResidentsOf(GpuIndex{i})) {
      if (!resident.memory.since()) continue;
      const Time due = *resident.memory.since() + *state.config.plateau_after;
      if (due > state.now) {
        state.next_plateau = std::min(state.next_plateau.value_or(due), due);
      } else if (const auto peak_mib =
                     state.ledger.PlateauOf(resident.task, PlateauFrom(state, state.now))) {
        const TaskRecord& task = state.tasks.at(resident.task);
        state.lessons.Enough(task, NeedAfterPlateau(*peak_mib));
        if (const auto share = OthersShare(state, task.id)) state.lessons.OthersShare(task, *share);
      }
    }
  }
}

std::optional<std::int64_t> TaughtMib(const State& state, const TaskRecord& task) {
  if (!state.config.plateau_after || !state.config.use_given_memory) return std::nullopt;
  const Lesson* lesson = state.lessons.Of(task);
  if (lesson == nullptr || (lesson->enough_mib == 0 && lesson->at_least_mib == 0))
    return std::nullopt;
  std::int64_t taught_mib = std::max(lesson->enough_mib, lesson->at_least_mib);
  // A lesson replaces a prediction, but not a higher value given by the user, which may be meant
  // for a later phase.
  const bool predicted = !task.estimate || task.estimate->predicted_mib;
  if (task.estimate && (lesson->enough_mib == 0 || !predicted))
    taught_mib = std::max(taught_mib, task.estimate->peak_mib);
  const std::int64_t most_mib = MostFor(state, task.request);
  return most_mib > 0 ? std::min(taught_mib, most_mib) : taught_mib;
}

void LookAtResidents(State& state, GpuIndex index) {
  GpuState& gpu = state.gpus.all[Number(index)];
  ++gpu.crowd;
  gpu.residents.clear();
  gpu.users.clear();
  for (const Resident& resident : state.ledger.ResidentsOf(index)) {
    const TaskRecord& task = state.tasks.at(resident.task);
    Profile profile = ProfileNow(state, task);
    if (resident.sm_active) profile.sm_active = resident.sm_active;
    Neighbour neighbour = NeighbourOf(state.config, task.request, profile);
    if (neighbour.load.user == kNoMpsClient)
      neighbour.load.user |= static_cast<std::uint32_t>(Number(resident.task));
    gpu.residents.push_back(OnPart(neighbour, gpu.info));
    gpu.users.push_back(task.request->uid);
  }
  // Foreign processes also use the GPU's SMs, to an unknown extent.
  if (gpu.sample && gpu.sample->foreign_processes > 0)
    gpu.residents.push_back(OnPart({.load = NeighbourOf(state.config, {}, {}).load}, gpu.info));
  const ThroughputEstimate outlook =
      ThroughputOf(gpu.residents, nullptr, SaturationOf({}, SharingOn(state.config, gpu.info.mig)));
  gpu.delivered = outlook.delivered;
  gpu.slowest = outlook.slowest;
  gpu.limited = std::ranges::any_of(
      gpu.residents, [](const Neighbour& each) { return each.max_slowdown < kAnySlowdown; });
  for (const Resident& resident : state.ledger.ResidentsOf(index))
    NoteProgress(state, resident.task);
}

void LearnActivity(State& state, GpuIndex index) {
  const GpuState& gpu = state.gpus.all[Number(index)];
  const std::span<const Resident> residents = state.ledger.ResidentsOf(index);
  const SharingMethod sharing = SharingOn(state.config, gpu.info.mig);
  const std::optional<SeenActivity> seen =
      ActivityOf(*gpu.sample, residents, gpu.crowd_changed, sharing);
  if (!seen) return;
  // The activities of tasks that take turns cannot be separated.
  const auto user = [](const Neighbour& each) { return each.load.user; };
  const bool take_turns = sharing == SharingMethod::kMps && !gpu.residents.empty() &&
                          std::ranges::any_of(gpu.residents, [&](const auto& each) {
                            return user(each) != user(gpu.residents[0]);
                          });
  if (take_turns) return;
  const double share = gpu.info.compute;
  // On a part of a GPU, activity is learned only from a task that is alone and does not fill the
  // part. A task that fills the part might use more of a whole GPU. It is unknown how the
  // activities of parts add up.
  if (share < 1 && (residents.size() > 1 || seen->sm_active > kFull)) return;
  const double sm_active = share * seen->sm_active;
  const Resident& resident = residents[seen->resident];
  if (resident.sm_active == sm_active) return;
  NoteActivity(state, resident.task);
  state.ledger.NoteActivity(index, resident.task, sm_active);
  state.lessons.Activity(state.tasks.at(resident.task), sm_active);
  // The new activity also changes the profiles of tasks of the same kind on other GPUs.
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i) LookAtResidents(state, GpuIndex{i});
}

double DoneS(const State& state, TaskId id) {
  const Life& life = state.LifeOf(id);
  return life.done_s + base::Seconds(state.now - life.done_at) * life.speed;
}

// A task that has run for longer than expected is assumed to have a fixed share of its run time
// left.
std::optional<double> LeftS(const State& state, const TaskRecord& task) {
  constexpr double kLeast = 0.1, kLeastByProgress = 0.01;
  const double done_s = HoldsGpus(task.state) ? DoneS(state, task.id) : 0;
  const std::optional<double>& shown_s = state.LifeOf(task.id).alone_s;
  if (shown_s && HoldsGpus(task.state))
    return std::max(*shown_s - done_s, kLeastByProgress * *shown_s);
  std::optional<double> alone_s;
  if (const Lesson* lesson = state.lessons.Of(task)) alone_s = lesson->alone_s;
  if (task.profile->alone) alone_s = base::Seconds(*task.profile->alone);
  if (!alone_s) return std::nullopt;
  return std::max(*alone_s - done_s, kLeast * *alone_s);
}

// Uses means over the whole attempt, because a program's last minutes, when it saves results, are
// not representative.
Profile SeenOf(const State& state, const TaskRecord& task) {
  Profile seen;
  const Life& life = state.LifeOf(task.id);
  seen.sm_active = ActivityNow(state, task.id);
  if (seen.sm_active && life.active_from && *life.active_from < state.now) {
    const double sum_s =
        life.activity_s + *seen.sm_active * base::Seconds(state.now - life.active_at);
    const double mean = sum_s / base::Seconds(state.now - *life.active_from);
    seen.sm_active = std::round(mean * 100) / 100;
  }
  if (const Lesson* lesson = state.lessons.Of(task)) seen.cpus = lesson->cpus;
  seen.others_share = OthersShare(state, task.id);
  // An attempt that continued from a checkpoint did only part of the work, so its run time is not
  // recorded.
  if (!life.restored && task.checkpoints == 0)
    seen.alone = Duration(std::llround(DoneS(state, task.id) * 1000));
  return seen;
}

Profile ProfileNow(const State& state, const TaskRecord& task) {
  Profile profile = task.profile;
  const Lesson* lesson = state.lessons.Of(task);
  if (lesson != nullptr && lesson->sm_active) profile.sm_active = lesson->sm_active;
  if (lesson != nullptr && lesson->others_share)
    profile.others_share = std::max(profile.others_share.value_or(0), *lesson->others_share);
  return profile;
}

void AddWhere(const State& state, const TaskRequest& request,
              std::shared_ptr<const GpuChoice> choice, Need& need) {
  need.choice = std::move(choice);
  AllowForInstances(state, need);
  if (state.reservations.empty()) return;  // time limits matter only for reservations
  need.runs_at_most = request.time_limit;
  need.own_reservations = state.reservations.Of(request);
}

// A task that has just started does not use all its cores yet. The cores that it is going to use do
// not count as idle.
void CountIdleCpus(State& state) {
  if (!state.machine.use) return;
  double idle = state.machine.use->cpus - state.machine.use->used_cpus;
  for (const auto& [id, its] : state.ledger.Tasks()) {
    const TaskRecord& task = state.tasks.at(id);
    if (state.now - task.attempt->launched.value_or(state.now) < kSeenWithin)
      idle -= std::max(0.0, UsesCpus(state, task) - state.LifeOf(id).cpus.value_or(0));
  }
  state.machine.idle_cpus = idle;
}

// Fills in the GPU's activity from the last sample, adjusted for the tasks that are running now. A
// task that appeared partway through the sample's window makes the mean too low, so the mean is
// scaled up. A task whose activity is already known counts even if it has not appeared in a sample
// yet.
void ShowActivity(const State& state, GpuIndex index, Time at, GpuView& view) {
  const GpuSample& sample = *state.gpus.all[Number(index)].sample;
  view.sm_active = sample.sm_active;
  if (!state.config.settle) return;
  const std::span<const Resident> residents = state.ledger.ResidentsOf(index);
  if (state.config.pacing != Pacing::kImmediate) {
    view.settled = HasSettled(sample, residents, at, state.config.settle_timeout);
    return;
  }
  std::vector<bool> known;
  std::vector<Load> loads;
  for (const Resident& each : residents) {
    const bool shown = each.first_seen && sample.window_from >= *each.first_seen;
    known.push_back(!shown && IsKnown(state, state.tasks.at(each.task)));
  }
  const Settled settled =
      LookWhetherSettled(sample, residents, known, at, state.config.settle_timeout);
  view.settled = !settled.by;
  view.settles_by = settled.by;
  if (!view.settled || !view.sm_active) return;
  view.sm_active = std::min(1.0, *view.sm_active / settled.share);
  if (std::ranges::none_of(known, std::identity())) return;
  for (std::size_t i = 0; i < residents.size() && i < view.residents.size(); ++i)
    loads.push_back(view.residents[i].load);
  std::vector<double> speeds(loads.size());
  const SharingMethod sharing = SharingOn(state.config, view.mig);
  Speeds({}, sharing, loads, speeds);
  view.sm_active = std::max(*view.sm_active, SmActivity({}, sharing, loads, speeds));
}

// If the bound were promised, the first task of a kind would wait for an empty GPU while the
// by-work mapper fills every gap with other tasks. The task hardly ever needs that much memory. The
// likely value is no longer used once tasks of the kind have been observed or the task has run out
// of memory.
std::optional<std::int64_t> LikelyMib(const State& state, const TaskRecord& task) {
  if (!state.config.plateau_after || !state.config.use_given_memory || task.ooms > 0 ||
      !task.estimate)
    return std::nullopt;
  const Estimate& estimate = *task.estimate;
  const bool large = static_cast<double>(estimate.peak_mib) >=
                     kMostOfGpu * static_cast<double>(state.gpus.largest_mib);
  if (!large || !estimate.predicted_mib || TaughtMib(state, task)) return std::nullopt;
  return std::min(*estimate.predicted_mib, estimate.peak_mib);
}

std::optional<Time> TakesTurnsAt(const State& state, const TaskRecord& task) {
  const Time at = task.queued_since + kTurnsAfter;
  return state.now < at ? std::optional(at) : std::nullopt;
}

void NoteWhatItAwaits(State& state, const TaskRecord& task, const Need& need) {
  Passes& passes = state.passes;
  if (const std::optional<Time> turns = TakesTurnsAt(state, task))
    passes.next_turns = std::min(passes.next_turns.value_or(*turns), *turns);
  passes.lacks_cores |= LacksCores(state, need);
}

bool LacksCores(const State& state, const Need& need) {
  return state.machine.idle_cpus && need.uses_cpus > *state.machine.idle_cpus;
}

void ReconsiderAtTurns(State& state) {
  if (!state.passes.next_turns || state.now < *state.passes.next_turns) return;
  state.passes.next_turns.reset();
  state.passes.Forget();
}

Need NeedNow(const State& state, const TaskRecord& task) {
  const Profile profile = ProfileNow(state, task);
  Need need = NeedOf(state.config, task, profile);
  // Request at least the task's peak: a later attempt that ended for another reason may have used
  // more memory than retry_free_mib. Request no more than the server's GPUs provide, because they
  // may be smaller than before.
  if (task.retry_free_mib) {
    need.retry_free_mib =
        std::min(std::max(*task.retry_free_mib, task.peak_mib), MostFor(state, task.request));
  }
  need.uses_cpus = UsesCpus(state, task);
  need.waited = state.now - task.submitted;
  need.takes_turns = state.now - task.queued_since >= kTurnsAfter;
  AddWhere(state, task.request, state.LifeOf(task.id).choice, need);
  if (const std::optional<std::int64_t> taught_mib = TaughtMib(state, task)) {
    need.memory_mib = taught_mib;
  } else if (const std::optional<std::int64_t> likely_mib = LikelyMib(state, task)) {
    need.memory_mib = likely_mib;
  }
  // For the other GPUs, a prediction is lowered, but a user's value is not: it may be meant for a
  // later phase in which all GPUs need as much as the first.
  const bool predicted = task.estimate && task.estimate->predicted_mib;
  const bool usual = task.ooms == 0 && !need.idle_gpu && !need.exclusive;
  if (need.gpus > 1 && need.memory_mib && predicted && usual && state.config.plateau_after &&
      profile.others_share.value_or(1) < 1) {
    need.others_mib = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(*need.memory_mib) * *profile.others_share));
  }
  return need;
}

}  // namespace carma::core
