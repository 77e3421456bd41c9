// Memory that tasks of a kind need, as learned from running ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/values/ids.h"

namespace carma::core {

// Per GPU.
struct Lesson {
  std::int64_t enough_mib = 0;         // a stable run needs no more; 0: none yet
  std::int64_t at_least_mib = 0;       // asked for after out of memory; 0: none yet
  std::optional<double> sm_active;     // of the last run, as if alone on its GPU
  std::optional<double> cpus;          // most busy threads per GPU of any run
  std::optional<double> others_share;  // Profile::others_share, highest of any run
  std::optional<double> alone_s;       // run time alone of the last run, by its own progress
  friend bool operator==(const Lesson&, const Lesson&) = default;
};

// Tasks are of one kind if they have the same user and KindId. The highest value of all runs
// counts; only at_least_mib falls again. A lesson is dropped with the last task of its kind: later
// tasks learn from the estimator's history. Tasks without a known kind are ignored.
class Lessons {
 public:
  // Called when the core begins to hold a task (Join) and when it drops the task (Leave).
  void Join(const TaskRecord& task);
  void Leave(const TaskRecord& task);
  // The following calls are only for tasks that have joined.
  void Enough(const TaskRecord& task, std::int64_t need_mib);
  void OthersShare(const TaskRecord& task, double share);
  void Activity(const TaskRecord& task, double sm_active);
  void Cpus(const TaskRecord& task, double cpus);
  void Alone(const TaskRecord& task, double alone_s);
  void AtLeast(const TaskRecord& task, std::int64_t demand_mib);
  // A run with enough memory: halves what AtLeast asks for beyond its need.
  void Succeeded(const TaskRecord& task, std::int64_t need_mib);

  // The lesson of the task's kind; null: nothing has been learned.
  const Lesson* Of(const TaskRecord& task) const;
  std::size_t tasks() const { return tasks_; }  // that have joined
  // Changes whenever a lesson has changed.
  std::uint64_t changes() const { return changes_; }

 private:
  struct Kind {
    std::size_t tasks = 0;
    Lesson lesson;
  };
  using Key = std::pair<std::uint32_t, KindId>;  // no lessons between users
  static Key KeyOf(const TaskRecord& task);
  std::map<Key, Kind> kinds_;
  Lesson* LessonFor(const TaskRecord& task);  // to be changed; null: no kind
  std::size_t tasks_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
