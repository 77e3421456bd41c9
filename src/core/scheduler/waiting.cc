#include "core/scheduler/waiting.h"

#include <algorithm>

namespace carma::core {
namespace {

// Maximum number of waiting tasks to sort in one step; the rest are sorted in the next steps.
// Thousands of tasks may be waiting for the same task to end, and the core's caller writes all
// changes of a step at once.
constexpr std::size_t kMostSorted = 1'000;

// The place that the task would have in the queue if its array had no limit.
Place PlaceFor(const State& state, const TaskRecord& task) {
  if (task.held) return Place::kHeld;
  if (!DependenciesMet(task, state.tasks)) return Place::kDependency;
  if (EarliestStart(task) > state.now) return Place::kTimed;
  if (state.LifeOf(task.id).unfit) return Place::kUnfit;
  return state.rules->Overlooks(task) ? Place::kOverlooked : Place::kEligible;
}

// True if the task was held or was waiting for another task or its start time, and now starts
// waiting for GPUs.
bool WaitsForGpusNow(const State& state, const TaskRecord& task, Place place) {
  const std::optional<Place> before = state.queue.PlaceOf(task.id);
  return before && WaitsForOthers(task, *before) && !WaitsForOthers(task, place);
}

void SortNextOfArray(State& state, const TaskRecord& task) {
  if (const std::optional<TaskId> next = state.arrays.Next(task)) state.unsorted.insert(*next);
}

void SortIn(State& state, TaskRecord& task) {
  if (std::optional<Reason> never = NeverMetDependency(task, state.tasks))
    return state.Finish(task, TaskState::kCancelled, *std::move(never));
  Place place = PlaceFor(state, task);
  if (place == Place::kEligible) {
    if (!state.arrays.Admit(task)) place = Place::kArray;
    SortNextOfArray(state, task);
  } else if (place != Place::kOverlooked) {
    LeaveArray(state, task);
  }
  if (WaitsForGpusNow(state, task, place)) {
    task.queued_since = state.now;
    state.Keep(task);
  }
  const Life& life = state.LifeOf(task.id);
  const Time since = life.line_since.value_or(life.restored ? task.queued_since : state.now);
  PutInQueue(state, task, place, EarliestStart(task), since);
  if (life.line_since) state.EditLife(task.id).line_since.reset();
}

}  // namespace

void SortWaiting(State& state) {
  for (const TaskId id : state.dependencies.Register(state.tasks)) {
    const TaskRecord* task = state.Held(id);
    if (task != nullptr && task->state == TaskState::kQueued) state.unsorted.insert(id);
  }
  for (const TaskId id : state.queue.Due(state.now)) state.unsorted.insert(id);
  // A task whose dependency can never be met ends here, which may resolve the dependencies of other
  // tasks.
  for (std::size_t sorted = 0; !state.unsorted.empty() && sorted < kMostSorted; ++sorted) {
    const TaskId id = *state.unsorted.begin();
    state.unsorted.erase(state.unsorted.begin());
    TaskRecord* task = state.Held(id);
    if (task != nullptr && task->state == TaskState::kQueued) SortIn(state, *task);
  }
}

void PutInQueue(State& state, const TaskRecord& task, Place place, Time due, Time waits_since) {
  state.passes.refused.Erase(task.id);
  state.passes.unplaceable.Erase(task.id);
  state.queue.Put(task, place, due, waits_since);
}

void LeaveArray(State& state, const TaskRecord& task) {
  state.arrays.Leave(task);
  SortNextOfArray(state, task);
}

bool WaitsForOthers(const TaskRecord& task, Place place) {
  return place == Place::kHeld || place == Place::kDependency ||
         (place == Place::kTimed && task.request->begin > task.queued_since);
}

Time EarliestStart(const TaskRecord& task) {
  return std::max(task.request->begin.value_or(Time{}), task.not_before.value_or(Time{}));
}

std::optional<Time> NextOrder(const State& state) {
  // The time that the last pass recorded stays valid until it is reached, unless the queue changes.
  const std::optional<NoStartSnapshot>& last = state.passes.no_start;
  if (last && last->line == state.queue.changes() && last->order_until &&
      state.now < *last->order_until)
    return last->order_until;
  std::optional<Time> next;
  for (const LineKind kind : {LineKind::kWithGpus, LineKind::kWithoutGpus}) {
    const std::map<LineKey, HolderLine>& lines = state.queue.Main(kind).holders;
    if (state.config.order != QueueOrder::kFair || lines.size() < 2) continue;
    next = std::min(next.value_or(SharesChange(state.now)), SharesChange(state.now));
    for (const auto& [key, line] : lines) {
      const Time patient = line.waits_since + state.config.fair.patience;
      if (patient > state.now) next = std::min(*next, patient);
    }
  }
  return next;
}

void AskForWake(State& state) {
  // Settling, stale samples and reservations need no wake-up, because they affect decisions only
  // while samples arrive, and each sample triggers a decision anyway.
  std::optional<Time> next;
  if (!state.unsorted.empty()) next = state.now;
  const bool anyone = !state.queue.Main().empty() || !state.queue.Recovery().empty() ||
                      !state.queue.Main(LineKind::kWithoutGpus).empty();
  // No wake-up is needed for a trial start that is already due. It waits for GPUs, and releasing a
  // GPU is an event.
  std::optional<Time> trial = anyone ? state.launch_trouble.NextTrial() : std::nullopt;
  if (trial && *trial <= state.now) trial.reset();
  const std::optional<Time> plateau = anyone ? state.next_plateau : std::nullopt;
  const std::optional<Time> turns = anyone ? state.passes.next_turns : std::nullopt;
  const std::optional<Time> limit = anyone ? state.limits.NextChange(state.now) : std::nullopt;
  const std::optional<Time> booked =
      state.reservations.NextChange(state.now, state.config.booking_lead);
  for (const std::optional<Time>& when :
       {state.queue.NextDue(), state.deadlines.Next(), state.rules->NextDecision(), trial, plateau,
        turns, limit, booked, NextOrder(state), state.preemptions.next_turn}) {
    if (when) next = std::min(next.value_or(*when), *when);
  }
  if (state.out.wake && *state.out.wake <= state.now) state.out.wake.reset();
  if (!next || next == state.out.wake) return;
  state.out.wake = next;
  state.out.actions.emplace_back(WakeAt{*next});
}

}  // namespace carma::core
