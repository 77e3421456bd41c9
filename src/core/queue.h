// Waiting tasks, each in exactly one place, and the order among those that may start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/task.h"

namespace carma::core {

// Why a queued task may or may not be looked at.
enum class Place {
  kEligible,    // in line for GPUs
  kHeld,        // until a person releases it
  kDependency,  // until another task ends
  kTimed,       // until a begin time or the end of a back-off
  kOverlooked,  // until the rules in force look at it (Rules::Overlooks)
  kArray,       // until fewer tasks of its array run
  kUnfit,       // restored on a server that can never take it
};

// Position in line: higher priority first. The main queue keeps the order of submission, so a task
// that comes back stands where it stood; the recovery queue goes by the time of entering.
struct QueueKey {
  std::int64_t less_priority = 0;  // negated, so that the greatest comes first
  Time since{};                    // recovery queue only
  TaskId task{};
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
};
QueueKey KeyOf(const TaskRecord& task);

class Queue {
 public:
  // Puts a task into a place, taking it out of the one it had. due: for kTimed.
  void Put(const TaskRecord& task, Place place, Time due = {});
  // A task that does not wait is passed over.
  void Remove(TaskId task);

  std::optional<Place> PlaceOf(TaskId task) const;
  // Tasks in line, first one first.
  const std::set<QueueKey>& Line(QueueKind kind) const {
    return kind == QueueKind::kMain ? main_ : recovery_;
  }
  // Tasks whose time has come, by time and id; they stay where they are until put elsewhere.
  std::vector<TaskId> Due(Time now) const;
  std::optional<Time> NextDue() const;
  std::size_t size() const { return entries_.size(); }
  // Another number whenever a task has been put somewhere or taken away.
  std::uint64_t changes() const { return changes_; }

 private:
  struct Entry {
    Place place{};
    QueueKind kind{};
    QueueKey key;
    Time due{};
  };
  std::unordered_map<std::uint64_t, Entry> entries_;  // for look-up only: its order reaches nobody
  std::set<QueueKey> main_;
  std::set<QueueKey> recovery_;
  std::set<std::pair<Time, TaskId>> timed_;
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
