// What running tasks have shown of the memory that tasks of their kind need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/values/task.h"

namespace carma::core {

// Per GPU.
struct Lesson {
  std::int64_t enough_mib = 0;      // a run stood still and needs no more; 0: none did
  std::int64_t at_least_mib = 0;    // a run ran out of memory and asks for this next; 0: none did
  std::optional<double> sm_active;  // of the last run that was seen, as if alone on its GPU
  std::optional<double> cpus;  // of the run that used most: threads kept busy for each of its GPUs
  friend bool operator==(const Lesson&, const Lesson&) = default;
};

// Tasks are of one kind if they have one user and one KindId. The most of all runs counts. What is
// known of a kind goes with the last of its tasks: later ones are told by the estimator's history.
// Tasks of no known kind are passed over.
class Lessons {
 public:
  // The core holds the task, or holds it no more.
  void Join(const TaskRecord& task);
  void Leave(const TaskRecord& task);
  // Only of tasks that have joined.
  void Enough(const TaskRecord& task, std::int64_t need_mib);
  void Activity(const TaskRecord& task, double sm_active);
  void Cpus(const TaskRecord& task, double cpus);
  void AtLeast(const TaskRecord& task, std::int64_t demand_mib);

  // Null: nothing has been learned.
  const Lesson* Of(const TaskRecord& task) const;
  std::size_t tasks() const { return tasks_; }  // that have joined
  // Another number whenever a lesson has changed.
  std::uint64_t changes() const { return changes_; }

 private:
  struct Kind {
    std::size_t tasks = 0;
    Lesson lesson;
  };
  using Key = std::pair<std::uint32_t, KindId>;  // nobody's tasks speak for another user's
  static Key KeyOf(const TaskRecord& task) { return {task.request->uid, task.kind}; }
  std::map<Key, Kind> kinds_;
  Lesson* LessonFor(const TaskRecord& task);  // that is about to change; null: no kind
  std::size_t tasks_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
