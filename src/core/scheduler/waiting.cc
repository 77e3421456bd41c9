// Which waiting tasks are considered, and which wait for something other than GPUs.
#include <algorithm>

#include "core/scheduler/scheduler_state.h"

namespace carma::core {
namespace {

// Maximum per step: thousands may wait for the end of one task, and the shell writes all changes of
// a step at once. The others follow immediately, after other events.
constexpr std::size_t kMostSorted = 1'000;

}  // namespace

void Scheduler::State::SortWaiting() {
  dependencies.Register(tasks);
  for (const TaskId id : queue.Due(now)) unsorted.insert(id);
  // A task whose dependency can never be met ends here, which may decide about further ones.
  for (std::size_t sorted = 0; !unsorted.empty() && sorted < kMostSorted; ++sorted) {
    const TaskId id = *unsorted.begin();
    unsorted.erase(unsorted.begin());
    TaskRecord* task = Held(id);
    if (task != nullptr && task->state == TaskState::kQueued) SortIn(*task);
  }
}

void Scheduler::State::SortIn(TaskRecord& task) {
  if (std::optional<Reason> never = NeverMetDependency(task, tasks)) {
    return Finish(task, TaskState::kCancelled, *std::move(never));
  }
  Place place = PlaceFor(task);
  if (place == Place::kEligible) {
    if (!arrays.Admit(task)) place = Place::kArray;
  } else if (place != Place::kOverlooked) {
    LeaveArray(task);
  }
  const bool restored = LifeOf(task.id).restored;
  PutInQueue(task, place, EarliestStart(task), restored ? task.queued_since : now);
}

void Scheduler::State::PutInQueue(const TaskRecord& task, Place place, Time due, Time waits_since) {
  refused.Erase(task.id);
  unplaceable.Erase(task.id);
  queue.Put(task, place, due, waits_since);
}

Place Scheduler::State::PlaceFor(const TaskRecord& task) const {
  if (task.held) return Place::kHeld;
  if (!DependenciesMet(task, tasks)) return Place::kDependency;
  if (EarliestStart(task) > now) return Place::kTimed;
  if (LifeOf(task.id).unfit) return Place::kUnfit;
  return rules->Overlooks(task) ? Place::kOverlooked : Place::kEligible;
}

void Scheduler::State::LeaveArray(const TaskRecord& task) {
  if (const std::optional<TaskId> next = arrays.Leave(task)) unsorted.insert(*next);
}

Time Scheduler::State::EarliestStart(const TaskRecord& task) const {
  return std::max(task.request->begin.value_or(Time{}), task.not_before.value_or(Time{}));
}

std::optional<Time> Scheduler::State::NextOrder() const {
  std::optional<Time> next;
  for (const LineKind kind : {LineKind::kWithGpus, LineKind::kWithoutGpus}) {
    const std::map<LineKey, HolderLine>& lines = queue.Main(kind).holders;
    if (config.order != QueueOrder::kFair || lines.size() < 2) continue;
    next = std::min(next.value_or(SharesChange(now)), SharesChange(now));
    for (const auto& [key, line] : lines) {
      const Time patient = line.waits_since + config.fair.patience;
      if (patient > now) next = std::min(*next, patient);
    }
  }
  return next;
}

void Scheduler::State::AskForWake() {
  // Settling, stale samples and reservations need no wake-up: they matter only while samples
  // arrive, and each sample triggers a decision.
  std::optional<Time> next;
  if (!unsorted.empty()) next = now;
  const bool anyone = !queue.Main().empty() || !queue.Recovery().empty() ||
                      !queue.Main(LineKind::kWithoutGpus).empty();
  // A trial that is already due waits for GPUs, whose release is an event.
  std::optional<Time> trial = anyone ? launch_trouble.NextTrial() : std::nullopt;
  if (trial && *trial <= now) trial.reset();
  const std::optional<Time> plateau = anyone ? next_plateau : std::nullopt;
  const std::optional<Time> easing = anyone ? next_easing : std::nullopt;
  const std::optional<Time> limit = anyone ? limits.NextChange(now) : std::nullopt;
  const std::optional<Time> booked = reservations.NextChange(now, config.booking_lead);
  for (const std::optional<Time>& when :
       {queue.NextDue(), deadlines.Next(), rules->NextDecision(), trial, plateau, easing, limit,
        booked, NextOrder(), next_turn}) {
    if (when) next = std::min(next.value_or(*when), *when);
  }
  if (wake && *wake <= now) wake.reset();
  if (!next || next == wake) return;
  wake = next;
  actions.emplace_back(WakeAt{*next});
}

}  // namespace carma::core
