// Waiting tasks, each in exactly one place, and the order among those that may start.
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
#include "core/values/task.h"

namespace carma::core {

// Why a queued task may or may not be looked at.
enum class Place : std::uint8_t {
  kEligible,    // in line for GPUs
  kHeld,        // until a person releases it
  kDependency,  // until another task ends
  kTimed,       // until a begin time or the end of a back-off
  kOverlooked,  // until the rules in force look at it (Rules::Overlooks)
  kArray,       // until fewer tasks of its array run
  kUnfit,       // restored on a server that can never take it
};

// Which line a task stands in: tasks that want no GPU never wait for those that do.
enum class LineKind : std::uint8_t { kWithGpus, kWithoutGpus };
LineKind LineKindOf(const TaskRequest& request);

// Position in line: higher priority first. The main queue keeps the order of submission, so a task
// that comes back stands where it stood, but for one whose turn is over: that stands behind those
// who waited. The recovery queue goes by the time of entering.
struct QueueKey {
  std::int64_t less_priority = 0;  // negated, so that the greatest comes first
  Time since{};
  TaskId task{};
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
};

// Whose tasks of the main queue stand in one order among themselves: those of one class, and of one
// user who works for one account.
struct LineKey {
  Holder holder;
  std::string qos;  // empty: the usual one
  friend auto operator<=>(const LineKey&, const LineKey&) = default;
};
LineKey LineOf(const TaskRecord& task);
struct HolderLine {
  std::string user;  // his name
  std::set<QueueKey> tasks;
  // Since when somebody has stood here while nobody was started from here.
  Time waits_since{};
};

// Tasks of the main queue in line, by holder; no line is empty. LineUp brings them in one order.
struct WaitingLine {
  std::map<LineKey, HolderLine> holders;
  std::size_t size = 0;  // of all lines together

  bool empty() const { return holders.empty(); }
  std::optional<TaskId> First() const;  // whatever the shares
};

class Queue {
 public:
  // What the classes add to priorities; tasks that have a place stand by the old ones until they
  // are put again.
  void UseClasses(const std::vector<QosClass>& classes);
  QueueKey KeyOf(const TaskRecord& task) const;

  // Puts a task into a place, taking it out of the one it had. due: for kTimed; waits_since: of a
  // task that begins its line.
  void Put(const TaskRecord& task, Place place, Time due = {}, Time waits_since = {});
  // Somebody was started from the line of this task.
  void NoteStart(const TaskRecord& task, Time now);
  // A task that does not wait is passed over.
  void Remove(TaskId task);

  std::optional<Place> PlaceOf(TaskId task) const;
  // Tasks in line for recovery, first one first.
  const std::set<QueueKey>& Recovery() const { return recovery_; }
  // Those of the main queue that want GPUs, or none.
  const WaitingLine& Main(LineKind kind = LineKind::kWithGpus) const {
    return kind == LineKind::kWithGpus ? with_gpus_ : without_gpus_;
  }
  // Tasks whose time has come, by time and id; they stay where they are until put elsewhere.
  std::vector<TaskId> Due(Time now) const;
  std::optional<Time> NextDue() const;
  std::size_t size() const { return entries_.size(); }
  // Another number whenever a task has been put somewhere or taken away.
  std::uint64_t changes() const { return changes_; }

 private:
  using Lines = std::map<LineKey, HolderLine>;
  // A hundred thousand may wait: as small as it can be.
  struct Entry {
    QueueKey key;          // of kTimed: the moment and the task alone
    Lines::iterator line;  // only where it is eligible and of the main queue
    Place place{};
    QueueKind kind{};
    LineKind line_kind = LineKind::kWithGpus;
  };
  void Leave(const Entry& entry);
  WaitingLine& LinesOf(LineKind kind) {
    return kind == LineKind::kWithGpus ? with_gpus_ : without_gpus_;
  }

  std::map<std::string, std::int64_t> priorities_;    // of classes
  std::unordered_map<std::uint64_t, Entry> entries_;  // for look-up only: its order reaches nobody
  WaitingLine with_gpus_;
  WaitingLine without_gpus_;
  std::set<QueueKey> recovery_;
  std::set<std::pair<Time, TaskId>> timed_;
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
