// Consistency checks of all state of the core.
#include <fmt/format.h>

#include <algorithm>

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

std::optional<std::string> Scheduler::State::CheckClaims() const {
  std::size_t claims = 0;
  for (const auto& [id, task] : tasks) {
    std::vector<GpuIndex> promised;
    for (const Placement& placement : task.attempt->placement) {
      if (HoldsGpus(task.state) && Number(placement.gpu) < gpus.size()) {
        promised.push_back(placement.gpu);
      }
    }
    if (!std::ranges::equal(promised, ledger.GpusOf(id))) {
      return fmt::format("task {} ({}) and the ledger disagree about its GPUs", id,
                         TaskStateName(task.state));
    }
    if (task.attempt->idle_since && !HoldsGpus(task.state)) {
      return fmt::format("task {} ({}) is marked idle and holds no GPU", id,
                         TaskStateName(task.state));
    }
    claims += promised.size();
  }
  std::size_t booked = 0;
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    for (const Resident& resident : ledger.ResidentsOf(GpuIndex{i})) {
      ++booked;
      const auto task = tasks.find(resident.task);
      if (task == tasks.end()) {
        return fmt::format("GPU {} has a claim of task {}, which is not held", i, resident.task);
      }
      const bool same =
          std::ranges::any_of(task->second.attempt->placement, [&](const Placement& each) {
            return each == Placement{GpuIndex{i}, resident.claim_mib};
          });
      if (!same) {
        return fmt::format("GPU {} has another claim of task {} than its record", i, resident.task);
      }
    }
  }
  if (claims != booked) return fmt::format("{} claims promised, {} booked", claims, booked);
  return std::nullopt;
}

std::optional<std::string> Scheduler::State::CheckHostShares() const {
  std::size_t promised = 0;
  for (const auto& [id, task] : tasks) {
    const HostShare* booked = host.ShareOf(id);
    if (!HoldsGpus(task.state) || task.attempt->host == HostShare{}) {
      if (booked == nullptr) continue;
      return fmt::format("task {} ({}) has cores or memory of the machine and is promised none", id,
                         TaskStateName(task.state));
    }
    if (booked == nullptr || *booked != task.attempt->host) {
      return fmt::format("task {} and the books of the machine disagree about its share", id);
    }
    ++promised;
  }
  if (promised == host.tasks()) return std::nullopt;
  return fmt::format("{} tasks are promised cores or memory, {} booked", promised, host.tasks());
}

bool Scheduler::State::StandsInItsLine(const TaskRecord& task) const {
  const QueueKey key = queue.KeyOf(task);
  if (task.queue == QueueKind::kRecovery) return queue.Recovery().contains(key);
  const std::map<LineKey, HolderLine>& lines = queue.Main(LineKindOf(task.request)).holders;
  const auto line = lines.find(LineOf(task));
  return line != lines.end() && line->second.tasks.contains(key);
}

std::optional<std::string> Scheduler::State::CheckQueue() const {
  std::size_t queued = 0;
  std::size_t in_line = 0;
  for (const auto& [id, task] : tasks) {
    if (IsFinal(task.state)) {
      return fmt::format("task {} is {} and still held", id, TaskStateName(task.state));
    }
    const std::optional<Place> place = queue.PlaceOf(id);
    if (unsorted.contains(id)) {
      if (place) ++queued;
      if (place == Place::kEligible) ++in_line;
      continue;
    }
    if (place.has_value() != (task.state == TaskState::kQueued)) {
      return fmt::format("task {} is {} and {} in the queue", id, TaskStateName(task.state),
                         place ? "stands" : "does not stand");
    }
    if (!place) continue;
    ++queued;
    if (*place != Place::kEligible) continue;
    ++in_line;
    if (!StandsInItsLine(task)) {
      return fmt::format("task {} is not where its priority puts it", id);
    }
  }
  if (queued != queue.size()) {
    return fmt::format("{} tasks are queued, {} stand in the queue", queued, queue.size());
  }
  std::size_t lines = queue.Recovery().size();
  for (const LineKind kind : {LineKind::kWithGpus, LineKind::kWithoutGpus}) {
    const WaitingLine& main = queue.Main(kind);
    std::size_t in_holder_lines = 0;
    for (const auto& [key, line] : main.holders) {
      if (line.tasks.empty()) return fmt::format("the line of {} is empty", line.user);
      for (const QueueKey& each : line.tasks) {
        if (LineKindOf(tasks.at(each.task).request) != kind)
          return fmt::format("task {} stands in the line of others", each.task);
      }
      in_holder_lines += line.tasks.size();
    }
    if (in_holder_lines != main.size) {
      return fmt::format("{} tasks in the main line, {} in those of their users", main.size,
                         in_holder_lines);
    }
    lines += main.size;
  }
  if (lines != in_line) return fmt::format("{} tasks in line, {} places", in_line, lines);
  std::size_t noted = 0;
  for (const auto& [id, task] : tasks) noted += lives.count(Number(id));
  if (noted != lives.size())
    return fmt::format("notes about {} tasks that are not held", lives.size() - noted);
  for (const auto& [first, places] : arrays.all()) {
    for (const TaskId id : places.admitted) {
      const auto task = tasks.find(id);
      const bool counts = task != tasks.end() &&
                          (HoldsGpus(task->second.state) || queue.PlaceOf(id) == Place::kEligible);
      if (!counts) return fmt::format("task {} holds a place of its array and waits", id);
    }
    for (const TaskId id : places.waiting) {
      if (queue.PlaceOf(id) == Place::kArray) continue;
      return fmt::format("task {} waits for its array and stands elsewhere", id);
    }
  }
  // The rest is placed next; a wake-up was requested for it.
  if ((!unsorted.empty() && wake != now) || !dependencies.AllRegistered())
    return "tasks were left unsorted";
  return std::nullopt;
}

std::optional<std::string> Scheduler::State::CheckEntitlements() const {
  const auto holding = static_cast<std::size_t>(
      std::ranges::count_if(tasks, [](const auto& each) { return HoldsGpus(each.second.state); }));
  if (shares.taking() != holding || limits.running() != holding) {
    return fmt::format("{} tasks hold GPUs, {} take their share and {} count for limits", holding,
                       shares.taking(), limits.running());
  }
  return std::nullopt;
}

std::optional<std::string> Scheduler::State::CheckTimers() const {
  std::size_t limited = 0;
  for (const auto& [id, task] : tasks) {
    if (task.state != TaskState::kRunning || !task.attempt->started || !task.request->time_limit)
      continue;
    ++limited;
    if (!deadlines.Watches(task)) {
      return fmt::format("nobody watches the time limit of task {}", id);
    }
  }
  std::size_t of_known_kind = 0;
  for (const auto& [id, task] : tasks) {
    if (task.kind != KindId{}) ++of_known_kind;
  }
  if (of_known_kind != lessons.tasks()) {
    return fmt::format("{} tasks are of a known kind, {} learn", of_known_kind, lessons.tasks());
  }
  std::size_t told = 0;
  for (const auto& [id, task] : tasks) {
    if (task.state != TaskState::kRunning || !task.attempt->leaves_by) continue;
    ++told;
    if (!leaving.contains(id)) return fmt::format("nobody knows that task {} has to leave", id);
  }
  if (told != leaving.size())
    return fmt::format("{} tasks have to leave, {} were asked to", told, leaving.size());
  if (limited != deadlines.size()) {
    return fmt::format("{} time limits, {} are watched", limited, deadlines.size());
  }
  if (recovery_hold.task() && !tasks.contains(*recovery_hold.task())) {
    return fmt::format("GPUs are kept for task {}, which is not held", *recovery_hold.task());
  }
  return std::nullopt;
}

}  // namespace carma::core
