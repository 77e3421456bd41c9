#include "core/scheduler/books.h"

#include <fmt/format.h>

#include <algorithm>

namespace carma::core {
namespace {

bool StandsInItsLine(const State& state, const TaskRecord& task) {
  const QueueKey key = state.queue.KeyOf(task);
  if (task.queue == QueueKind::kRecovery) return state.queue.Recovery().contains(key);
  const std::map<LineKey, HolderLine>& lines = state.queue.Main(LineKindOf(task.request)).holders;
  const auto line = lines.find(LineOf(task));
  return line != lines.end() && line->second.tasks.contains(key);
}

std::optional<std::string> CheckHolderLines(const State& state, LineKind kind) {
  const WaitingLine& main = state.queue.Main(kind);
  std::size_t in_holder_lines = 0;
  for (const auto& [key, line] : main.holders) {
    if (line.tasks.empty()) return fmt::format("the queue of user {} is empty", line.user);
    for (const QueueKey& each : line.tasks) {
      if (LineKindOf(state.tasks.at(each.task).request) != kind)
        return fmt::format("task {} is in a queue of the wrong kind", each.task);
    }
    in_holder_lines += line.tasks.size();
  }
  if (in_holder_lines != main.size) {
    return fmt::format("the main queue has {} tasks, but its users' queues have {}", main.size,
                       in_holder_lines);
  }
  return std::nullopt;
}

std::optional<std::string> CheckArrays(const State& state) {
  for (const auto& [first, places] : state.arrays.all()) {
    for (const TaskId id : places.admitted) {
      const auto task = state.tasks.find(id);
      const bool counts =
          task != state.tasks.end() &&
          (HoldsGpus(task->second.state) || state.queue.PlaceOf(id) == Place::kEligible);
      if (!counts) return fmt::format("task {} counts as running for its array but is waiting", id);
    }
    for (const TaskId id : places.waiting) {
      if (state.queue.PlaceOf(id) == Place::kArray) continue;
      return fmt::format("task {} waits for its array but is queued elsewhere", id);
    }
    if (places.waiting.empty()) continue;
    const TaskId next = *places.waiting.begin();
    if (state.arrays.Next(state.tasks.at(next)) && !state.unsorted.contains(next))
      return fmt::format("task {} waits for its array even though a slot is free", next);
  }
  return std::nullopt;
}

std::optional<std::string> CheckClaims(const State& state) {
  std::size_t claims = 0;
  for (const auto& [id, task] : state.tasks) {
    std::vector<GpuIndex> promised;
    for (const Placement& placement : task.attempt->placement) {
      if (HoldsGpus(task.state) && Number(placement.gpu) < state.gpus.all.size())
        promised.push_back(placement.gpu);
    }
    if (!std::ranges::equal(promised, state.ledger.GpusOf(id))) {
      return fmt::format("task {} ({}) and the ledger disagree about its GPUs", id,
                         TaskStateName(task.state));
    }
    if (task.attempt->idle_since && !HoldsGpus(task.state)) {
      return fmt::format("task {} ({}) is marked idle but holds no GPU", id,
                         TaskStateName(task.state));
    }
    claims += promised.size();
  }
  std::size_t booked = 0;
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i) {
    for (const Resident& resident : state.ledger.ResidentsOf(GpuIndex{i})) {
      ++booked;
      const auto task = state.tasks.find(resident.task);
      if (task == state.tasks.end())
        return fmt::format("GPU {} has a claim by task {}, which does not exist", i, resident.task);
      const bool same =
          std::ranges::any_of(task->second.attempt->placement, [&](const Placement& each) {
            return each == Placement{GpuIndex{i}, resident.claim_mib};
          });
      if (!same) {
        return fmt::format("the claim on GPU {} for task {} differs from the task's record", i,
                           resident.task);
      }
    }
  }
  if (claims != booked) return fmt::format("{} claims promised, {} booked", claims, booked);
  return std::nullopt;
}

std::optional<std::string> CheckHostShares(const State& state) {
  std::size_t promised = 0;
  for (const auto& [id, task] : state.tasks) {
    const HostShare* booked = state.machine.books.ShareOf(id);
    if (!HoldsGpus(task.state) || task.attempt->host == HostShare{}) {
      if (booked == nullptr) continue;
      return fmt::format("task {} ({}) has cores or memory booked but was promised none", id,
                         TaskStateName(task.state));
    }
    if (booked == nullptr || *booked != task.attempt->host) {
      return fmt::format("task {} and the server's records disagree about its cores or memory", id);
    }
    ++promised;
  }
  if (promised == state.machine.books.tasks()) return std::nullopt;
  return fmt::format("{} tasks are promised cores or memory, but {} are on record", promised,
                     state.machine.books.tasks());
}

std::optional<std::string> CheckQueue(const State& state) {
  std::size_t queued = 0;
  std::size_t in_line = 0;
  for (const auto& [id, task] : state.tasks) {
    if (IsFinal(task.state))
      return fmt::format("task {} is {} but still recorded", id, TaskStateName(task.state));
    const std::optional<Place> place = state.queue.PlaceOf(id);
    if (state.unsorted.contains(id)) {
      if (place) ++queued;
      if (place == Place::kEligible) ++in_line;
      continue;
    }
    if (place.has_value() != (task.state == TaskState::kQueued)) {
      return fmt::format("task {} is {} but {} in the queue", id, TaskStateName(task.state),
                         place ? "is" : "is not");
    }
    if (!place) continue;
    ++queued;
    if (*place != Place::kEligible) continue;
    ++in_line;
    if (!StandsInItsLine(state, task))
      return fmt::format("the position of task {} does not match its priority", id);
  }
  if (queued != state.queue.size()) {
    return fmt::format("{} tasks have the state queued, but {} are in the queue", queued,
                       state.queue.size());
  }
  std::size_t lines = state.queue.Recovery().size();
  for (const LineKind kind : {LineKind::kWithGpus, LineKind::kWithoutGpus}) {
    if (auto wrong = CheckHolderLines(state, kind)) return wrong;
    lines += state.queue.Main(kind).size;
  }
  if (lines != in_line) return fmt::format("{} tasks should be queued, but {} are", in_line, lines);
  std::size_t noted = 0;
  for (const auto& [id, task] : state.tasks) noted += state.lives.count(Number(id));
  if (noted != state.lives.size())
    return fmt::format("there are records of {} tasks that do not exist",
                       state.lives.size() - noted);
  if (auto wrong = CheckArrays(state)) return wrong;
  // Tasks may remain unsorted after a step only if the core has asked to be woken immediately.
  if ((!state.unsorted.empty() && state.out.wake != state.now) ||
      !state.dependencies.AllRegistered())
    return "tasks are unsorted, but no wake-up was requested";
  return std::nullopt;
}

std::optional<std::string> CheckEntitlements(const State& state) {
  const auto holding = static_cast<std::size_t>(std::ranges::count_if(
      state.tasks, [](const auto& each) { return HoldsGpus(each.second.state); }));
  if (state.shares.taking() != holding || state.limits.running() != holding) {
    return fmt::format("{} tasks hold GPUs, but {} are counted for fair share and {} for limits",
                       holding, state.shares.taking(), state.limits.running());
  }
  return std::nullopt;
}

std::optional<std::string> CheckTimers(const State& state) {
  std::size_t limited = 0;
  for (const auto& [id, task] : state.tasks) {
    if (task.state != TaskState::kRunning || !task.attempt->started || !task.request->time_limit)
      continue;
    ++limited;
    if (!state.deadlines.Watches(task))
      return fmt::format("the time limit of task {} is not being enforced", id);
  }
  std::size_t of_known_kind = 0;
  for (const auto& [id, task] : state.tasks) {
    if (task.kind != KindId{}) ++of_known_kind;
  }
  if (of_known_kind != state.lessons.tasks()) {
    return fmt::format("{} tasks are of a known kind, but {} are counted", of_known_kind,
                       state.lessons.tasks());
  }
  std::size_t told = 0;
  for (const auto& [id, task] : state.tasks) {
    if (task.state != TaskState::kRunning || !task.attempt->leaves_by) continue;
    ++told;
    if (!state.preemptions.leaving.contains(id))
      return fmt::format("task {} has to leave but is not listed as leaving", id);
  }
  if (told != state.preemptions.leaving.size())
    return fmt::format("{} tasks have to leave, but {} are listed as leaving", told,
                       state.preemptions.leaving.size());
  if (limited != state.deadlines.size())
    return fmt::format("{} running tasks have time limits, but {} are watched", limited,
                       state.deadlines.size());
  if (state.recovery_hold.task() && !state.tasks.contains(*state.recovery_hold.task())) {
    return fmt::format("GPUs are kept for task {}, which does not exist",
                       *state.recovery_hold.task());
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckBooks(const State& state) {
  if (auto wrong = CheckClaims(state)) return wrong;
  if (auto wrong = CheckHostShares(state)) return wrong;
  if (auto wrong = CheckQueue(state)) return wrong;
  if (auto wrong = CheckEntitlements(state)) return wrong;
  return CheckTimers(state);
}

}  // namespace carma::core
