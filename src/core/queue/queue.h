// Holds all waiting tasks, each in exactly one place, and orders those that may start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/books/fair_share.h"
#include "core/values/entitlement.h"
#include "core/values/ids.h"
#include "core/values/task_request.h"
#include "core/values/task_state.h"

namespace carma::core {

// Where a queued task waits. Only eligible tasks are considered for a start.
enum class Place : std::uint8_t {
  kEligible,    // in the queue for GPUs
  kHeld,        // waits until a user releases it
  kDependency,  // waits until another task ends
  kTimed,       // waits for a begin time or the end of a back-off
  kOverlooked,  // waits until the rules in force consider it (Rules::Overlooks)
  kArray,       // waits until fewer tasks of its array are running
  kUnfit,       // can never start on this server under its limits
};

// There are two main queues, so that tasks without GPUs never wait for tasks with GPUs.
enum class LineKind : std::uint8_t { kWithGpus, kWithoutGpus };
LineKind LineKindOf(const TaskRequest& request);

// Position in a queue: by priority, then by time of submission, so that a requeued task gets its
// old position back. Recovery tasks and tasks whose time slice has ended are instead ordered by the
// time when they entered the queue.
struct QueueKey {
  std::int64_t less_priority = 0;  // the negated priority, so that the highest comes first
  Time since{};
  TaskId task{};
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
};

// The key of a line. A line consists of the tasks of the main queue with the same class, user and
// account. Their relative order is fixed.
struct LineKey {
  Holder holder;
  std::string qos;  // empty: the default class
  friend auto operator<=>(const LineKey&, const LineKey&) = default;
};
LineKey LineOf(const TaskRecord& task);
struct HolderLine {
  std::string user;  // the user's name
  std::set<QueueKey> tasks;
  // When this line started waiting: the last start of one of its tasks or, if none has started
  // since the line was last empty, the arrival of its first task.
  Time waits_since{};
};

// A main queue, divided into lines that are never empty. LineUp merges the lines into one order.
struct WaitingLine {
  std::map<LineKey, HolderLine> holders;
  std::size_t size = 0;  // number of tasks in all lines

  bool empty() const { return holders.empty(); }
  std::optional<TaskId> First() const;  // the first by QueueKey, regardless of shares
};

class Queue {
 public:
  // Sets the priorities of classes. Queued tasks keep the old priorities until they are Put again.
  void UseClasses(const std::vector<QosClass>& classes);
  QueueKey KeyOf(const TaskRecord& task) const;

  // Moves a task to a place. `due` is used only for kTimed, `waits_since` only for the first task
  // of a line.
  void Put(const TaskRecord& task, Place place, Time due = {}, Time waits_since = {});
  // Reports that this task was started, which resets its line's waiting time.
  void NoteStart(const TaskRecord& task, Time now);
  // Removes a task. Does nothing if the task is not waiting.
  void Remove(TaskId task);

  std::optional<Place> PlaceOf(TaskId task) const;
  // The recovery queue, in order.
  const std::set<QueueKey>& Recovery() const { return recovery_; }
  // The main queue of the given kind.
  const WaitingLine& Main(LineKind kind = LineKind::kWithGpus) const {
    return kind == LineKind::kWithGpus ? with_gpus_ : without_gpus_;
  }
  // The tasks in kTimed whose time has come, ordered by time and id. They stay in kTimed until Put
  // moves them elsewhere.
  std::vector<TaskId> Due(Time now) const;
  std::optional<Time> NextDue() const;
  std::size_t size() const { return entries_.size(); }
  // Incremented whenever a task is added, moved or removed.
  std::uint64_t changes() const { return changes_; }

 private:
  using Lines = std::map<LineKey, HolderLine>;
  // The queue may hold a hundred thousand entries, so each entry must be small.
  struct Entry {
    QueueKey key;          // in kTimed only the time and the task are set
    Lines::iterator line;  // set only if the task is eligible and in a main queue
    Place place{};
    QueueKind kind{};
    LineKind line_kind = LineKind::kWithGpus;
  };
  void Leave(const Entry& entry);
  WaitingLine& LinesOf(LineKind kind) {
    return kind == LineKind::kWithGpus ? with_gpus_ : without_gpus_;
  }

  std::map<std::string, std::int64_t> priorities_;    // priorities of classes
  std::unordered_map<std::uint64_t, Entry> entries_;  // for look-up only; the order is not used
  WaitingLine with_gpus_;
  WaitingLine without_gpus_;
  std::set<QueueKey> recovery_;
  std::set<std::pair<Time, TaskId>> timed_;
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
