// Lessons from running tasks, for their own promises and for waiting tasks of their kind.
#include <algorithm>
#include <cmath>
#include <functional>

#include "core/books/activity.h"
#include "core/books/settling.h"
#include "core/scheduler/scheduler_state.h"

namespace carma::core {
namespace {

// A prediction of at least this share of the largest GPU is reduced while the task waits: over this
// time, in these steps, from its bound to its most likely value (docs/server/policies.md).
constexpr double kMostOfGpu = 0.6;
constexpr Duration kEasedWithin{3'600'000};
constexpr int kEasingSteps = 4;

// After this time a started task shows all the cores that it uses.
constexpr Duration kSeenWithin{60'000};

// A task with an activity above this could use more.
constexpr double kFull = 0.95;

}  // namespace

Time Scheduler::State::PlateauFrom(Time at) const {
  return config.plateau_after ? at - *config.plateau_after : Time::min();
}

// Most samples show nothing new, so residents are checked only when the next plateau is due.
void Scheduler::State::LearnPlateaus() {
  if (!next_plateau || now < *next_plateau) return;
  next_plateau.reset();
  if (!config.plateau_after) return;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    for (const Resident& resident : ledger.ResidentsOf(GpuIndex{i})) {
      if (!resident.memory.since()) continue;
      const Time due = *resident.memory.since() + *config.plateau_after;
      if (due > now) {
        next_plateau = std::min(next_plateau.value_or(due), due);
      } else if (const auto peak_mib = ledger.PlateauOf(resident.task, PlateauFrom(now))) {
        lessons.Enough(tasks.at(resident.task), NeedAfterPlateau(*peak_mib));
      }
    }
  }
}

std::optional<std::int64_t> Scheduler::State::TaughtMib(const TaskRecord& task) const {
  if (!config.plateau_after || !config.use_given_memory) return std::nullopt;
  const Lesson* lesson = lessons.Of(task);
  if (lesson == nullptr || (lesson->enough_mib == 0 && lesson->at_least_mib == 0))
    return std::nullopt;
  std::int64_t taught_mib = std::max(lesson->enough_mib, lesson->at_least_mib);
  // A user's figure may be meant for a later phase; a prediction is replaced.
  const bool predicted = !task.estimate || task.estimate->predicted_mib;
  if (task.estimate && (lesson->enough_mib == 0 || !predicted))
    taught_mib = std::max(taught_mib, task.estimate->peak_mib);
  const std::int64_t most_mib = MostFor(task.request);
  return most_mib > 0 ? std::min(taught_mib, most_mib) : taught_mib;
}

void Scheduler::State::LookAtResidents(GpuIndex index) {
  GpuState& gpu = gpus[Number(index)];
  ++gpu.crowd;
  gpu.residents.clear();
  gpu.users.clear();
  for (const Resident& resident : ledger.ResidentsOf(index)) {
    const TaskRecord& task = tasks.at(resident.task);
    Profile profile = ProfileNow(task);
    if (resident.sm_active) profile.sm_active = resident.sm_active;
    Neighbour neighbour = NeighbourOf(config, task.request, profile);
    if (neighbour.load.user == kNoMpsClient)
      neighbour.load.user |= static_cast<std::uint32_t>(Number(resident.task));
    gpu.residents.push_back(OnPart(config, neighbour, gpu.info.compute));
    gpu.users.push_back(task.request->uid);
  }
  // Foreign processes compute too, to an unknown extent.
  if (gpu.sample && gpu.sample->foreign_processes > 0)
    gpu.residents.push_back(
        OnPart(config, {.load = NeighbourOf(config, {}, {}).load}, gpu.info.compute));
  const ThroughputEstimate outlook =
      ThroughputOf(gpu.residents, nullptr, SaturationOf({}, config.sharing));
  gpu.delivered = outlook.delivered;
  gpu.slowest = outlook.slowest;
  for (const Resident& resident : ledger.ResidentsOf(index)) NoteProgress(resident.task);
}

// From now on its speed is that of its slowest GPU.
void Scheduler::State::NoteProgress(TaskId id) {
  Life& life = EditLife(id);
  life.done_s = DoneS(id);
  life.done_at = now;
  life.speed = 1;
  std::vector<double> slowdowns;
  for (const GpuIndex gpu : ledger.GpusOf(id)) {
    life.speed = std::min(life.speed, gpus[Number(gpu)].pace);
    const std::span<const Resident> residents = ledger.ResidentsOf(gpu);
    const std::vector<Neighbour>& loads = gpus[Number(gpu)].residents;
    const auto at = std::ranges::find(residents, id, &Resident::task) - residents.begin();
    if (loads.size() <= static_cast<std::size_t>(at)) continue;  // being filled in
    SlowdownsOf(loads, SaturationOf({}, config.sharing), slowdowns);
    life.speed =
        std::min(life.speed, gpus[Number(gpu)].pace / slowdowns[static_cast<std::size_t>(at)]);
  }
}

void Scheduler::State::LearnActivity(GpuIndex index) {
  const GpuState& gpu = gpus[Number(index)];
  const std::span<const Resident> residents = ledger.ResidentsOf(index);
  const std::optional<SeenActivity> seen =
      ActivityOf(*gpu.sample, residents, gpu.crowd_changed, config.sharing);
  if (!seen) return;
  // The activities of tasks that take turns cannot be separated.
  const auto user = [](const Neighbour& each) { return each.load.user; };
  const bool take_turns = config.sharing == SharingMethod::kMps && !gpu.residents.empty() &&
                          std::ranges::any_of(gpu.residents, [&](const auto& each) {
                            return user(each) != user(gpu.residents[0]);
                          });
  if (take_turns) return;
  const double share = gpu.info.compute;
  // A task that fills a part of a GPU might fill more; how activities of parts add up is unknown.
  if (share < 1 && (residents.size() > 1 || seen->sm_active > kFull)) return;
  const double sm_active = share * seen->sm_active;
  const Resident& resident = residents[seen->resident];
  if (resident.sm_active == sm_active) return;
  NoteActivity(resident.task);
  ledger.NoteActivity(index, resident.task, sm_active);
  lessons.Activity(tasks.at(resident.task), sm_active);
  // Others of its kind are running too.
  for (std::uint32_t i = 0; i < gpus.size(); ++i) LookAtResidents(GpuIndex{i});
}

double Scheduler::State::DoneS(TaskId id) const {
  const Life& life = LifeOf(id);
  return life.done_s + base::Seconds(now - life.done_at) * life.speed;
}

std::optional<double> Scheduler::State::ActivityNow(TaskId id) const {
  std::optional<double> most;
  for (const GpuIndex gpu : ledger.GpusOf(id)) {
    const std::span<const Resident> residents = ledger.ResidentsOf(gpu);
    const auto resident = std::ranges::find(residents, id, &Resident::task);
    if (resident->sm_active) most = std::max(most.value_or(0), *resident->sm_active);
  }
  return most;
}

void Scheduler::State::NoteActivity(TaskId id) {
  Life& life = EditLife(id);
  if (!life.active_from) life.active_from = now;
  life.activity_s += ActivityNow(id).value_or(0) * base::Seconds(now - life.active_at);
  life.active_at = now;
}

// The mean over the attempt, because its end, when a program saves results, is not more
// representative than the hours before.
Profile Scheduler::State::SeenOf(const TaskRecord& task) const {
  Profile seen;
  const Life& life = LifeOf(task.id);
  seen.sm_active = ActivityNow(task.id);
  if (seen.sm_active && life.active_from && *life.active_from < now) {
    const double sum_s = life.activity_s + *seen.sm_active * base::Seconds(now - life.active_at);
    const double mean = sum_s / base::Seconds(now - *life.active_from);
    seen.sm_active = std::round(mean * 100) / 100;
  }
  if (!life.restored) seen.alone = Duration(std::llround(DoneS(task.id) * 1000));
  return seen;
}

Profile Scheduler::State::ProfileNow(const TaskRecord& task) const {
  Profile profile = task.profile;
  const Lesson* lesson = lessons.Of(task);
  if (lesson != nullptr && lesson->sm_active) profile.sm_active = lesson->sm_active;
  return profile;
}

void Scheduler::State::AddWhere(const TaskRequest& request, std::shared_ptr<const GpuChoice> choice,
                                Need& need) const {
  need.choice = std::move(choice);
  if (reservations.empty()) return;  // tasks of different limits ask for the same
  need.runs_at_most = request.time_limit;
  need.own_reservations = reservations.Of(request);
}

double Scheduler::State::UsesCpus(const TaskRecord& task) const {
  if (!host_use || task.request->gpus < 1) return 0;
  const Lesson* lesson = lessons.Of(task);
  if (lesson != nullptr && lesson->cpus) return *lesson->cpus * task.request->gpus;
  double sum = 0;
  int gpus_of = 0;
  for (const auto& [id, cpus] : host_use->tasks_cpus) {
    const auto at = tasks.find(id);
    if (at == tasks.end() || at->second.request->gpus < 1) continue;
    sum += cpus;
    gpus_of += at->second.request->gpus;
  }
  return gpus_of == 0 ? 0 : sum / gpus_of * task.request->gpus;
}

// A task that has just started does not show its full use for a while.
void Scheduler::State::CountIdleCpus() {
  if (!host_use) return;
  double idle = host_use->cpus - host_use->used_cpus;
  for (const auto& [id, its] : ledger.Tasks()) {
    const TaskRecord& task = tasks.at(id);
    if (now - task.attempt->launched.value_or(now) < kSeenWithin)
      idle -= std::max(0.0, UsesCpus(task) - LifeOf(id).cpus.value_or(0));
  }
  idle_cpus = idle;
}

bool Scheduler::State::IsKnown(const TaskRecord& task) const {
  return !task.attempt->placement.empty() && task.attempt->placement.front().claim_mib > 0 &&
         ProfileNow(task).sm_active;
}

// The activity in the last sample, corrected for the current tasks: a window that began before a
// task appeared has too low a mean, and a task of known activity need not appear at all.
void Scheduler::State::ShowActivity(GpuIndex index, Time at, GpuView& view) const {
  const GpuSample& sample = *gpus[Number(index)].sample;
  view.sm_active = sample.sm_active;
  if (!config.settle) return;
  const std::span<const Resident> residents = ledger.ResidentsOf(index);
  if (config.pacing != Pacing::kImmediate) {
    view.settled = HasSettled(sample, residents, at, config.settle_timeout);
    return;
  }
  std::vector<bool> known;
  std::vector<Load> loads;
  for (const Resident& each : residents) {
    const bool shown = each.first_seen && sample.window_from >= *each.first_seen;
    known.push_back(!shown && IsKnown(tasks.at(each.task)));
  }
  const Settled settled = LookWhetherSettled(sample, residents, known, at, config.settle_timeout);
  view.settled = !settled.by;
  view.settles_by = settled.by;
  if (!view.settled || !view.sm_active) return;
  view.sm_active = std::min(1.0, *view.sm_active / settled.share);
  if (std::ranges::none_of(known, std::identity())) return;
  for (std::size_t i = 0; i < residents.size() && i < view.residents.size(); ++i)
    loads.push_back(view.residents[i].load);
  std::vector<double> speeds(loads.size());
  Speeds({}, config.sharing, loads, speeds);
  view.sm_active = std::max(*view.sm_active, SmActivity({}, config.sharing, loads, speeds));
}

// The first task of a kind would wait for an empty GPU because of a bound that it hardly ever
// needs, while by-work fills every free place. A lesson of its kind, or a failure, is not a
// prediction any more.
bool Scheduler::State::IsEased(const TaskRecord& task) const {
  if (!config.plateau_after || !config.use_given_memory || task.ooms > 0 || !task.estimate)
    return false;
  const Estimate& estimate = *task.estimate;
  if (!estimate.predicted_mib || *estimate.predicted_mib >= estimate.peak_mib) return false;
  const std::int64_t largest_mib = gpu_sizes_mib.empty() ? 0 : std::ranges::max(gpu_sizes_mib);
  return static_cast<double>(estimate.peak_mib) >= kMostOfGpu * static_cast<double>(largest_mib) &&
         !TaughtMib(task);
}

std::int64_t Scheduler::State::EasedMib(const TaskRecord& task) const {
  const Estimate& estimate = *task.estimate;
  const auto steps =
      std::min<std::int64_t>((now - task.submitted) * kEasingSteps / kEasedWithin, kEasingSteps);
  return estimate.peak_mib - (estimate.peak_mib - *estimate.predicted_mib) * steps / kEasingSteps;
}

std::optional<Time> Scheduler::State::EasesAt(const TaskRecord& task) const {
  std::optional<Time> at;
  if (const Time turns = task.queued_since + kTurnsAfter; now < turns) at = turns;
  if (!IsEased(task)) return at;
  const auto steps = (now - task.submitted) * kEasingSteps / kEasedWithin;
  if (steps >= kEasingSteps) return at;
  const Time eases = task.submitted + kEasedWithin * (steps + 1) / kEasingSteps;
  return std::min(at.value_or(eases), eases);
}

void Scheduler::State::ForgetLooksOnceEased() {
  if (!next_easing || now < *next_easing) return;
  next_easing.reset();
  no_start.reset();
  refused.Clear();
  unplaceable.Clear();
}

Need Scheduler::State::NeedNow(const TaskRecord& task) const {
  Need need = NeedOf(config, task);
  const Profile profile = ProfileNow(task);
  need.load = NeighbourOf(config, task.request, profile);
  need.activity_known = profile.sm_active.has_value();
  need.uses_cpus = UsesCpus(task);
  need.waited = now - task.submitted;
  need.takes_turns = now - task.queued_since >= kTurnsAfter;
  AddWhere(task.request, LifeOf(task.id).choice, need);
  if (const std::optional<std::int64_t> taught_mib = TaughtMib(task)) {
    need.memory_mib = taught_mib;
  } else if (IsEased(task)) {
    need.memory_mib = EasedMib(task);
  }
  return need;
}

}  // namespace carma::core
