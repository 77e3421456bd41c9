// Learns from running tasks what waiting tasks of the same kind will need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/values/ids.h"

namespace carma::core {

// What has been learned about one kind of task. Memory is per GPU.
struct Lesson {
  std::int64_t enough_mib = 0;         // maximum over stable runs; 0 if none yet
  std::int64_t at_least_mib = 0;       // demand after running out of memory; 0 if none yet
  std::optional<double> sm_active;     // in the last run, as if running alone
  std::optional<double> cpus;          // highest number of busy threads per GPU in any run
  std::optional<double> others_share;  // highest Profile::others_share of any run
  std::optional<double> alone_s;       // solo run time of the last run, from its progress output
  friend bool operator==(const Lesson&, const Lesson&) = default;
};

// Tasks are of the same kind if they have the same user and KindId. Tasks of unknown kind are
// ignored. Memory values are maxima over all runs; only at_least_mib can decrease again. A lesson
// is dropped when the last task of its kind leaves. From then on, the estimator's history provides
// the estimates.
class Lessons {
 public:
  // Called when a task enters the core (Join) and when the core drops it (Leave).
  void Join(const TaskRecord& task);
  void Leave(const TaskRecord& task);
  // Call the following functions only for tasks that were passed to Join.
  void Enough(const TaskRecord& task, std::int64_t need_mib);
  void OthersShare(const TaskRecord& task, double share);
  void Activity(const TaskRecord& task, double sm_active);
  void Cpus(const TaskRecord& task, double cpus);
  void Alone(const TaskRecord& task, double alone_s);
  void AtLeast(const TaskRecord& task, std::int64_t demand_mib);
  // Records that a run had enough memory. If AtLeast demanded more than `need_mib`, halves the
  // difference between the demand and `need_mib`.
  void Succeeded(const TaskRecord& task, std::int64_t need_mib);

  // Returns the lesson for the task's kind, or null if there is none.
  const Lesson* Of(const TaskRecord& task) const;
  std::size_t tasks() const { return tasks_; }  // number of joined tasks
  // Incremented whenever a lesson changes.
  std::uint64_t changes() const { return changes_; }

 private:
  struct Kind {
    std::size_t tasks = 0;
    Lesson lesson;
  };
  using Key = std::pair<std::uint32_t, KindId>;  // lessons are never shared between users
  static Key KeyOf(const TaskRecord& task);
  std::map<Key, Kind> kinds_;
  Lesson* LessonFor(const TaskRecord& task);  // null if its kind is unknown
  std::size_t tasks_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace carma::core
