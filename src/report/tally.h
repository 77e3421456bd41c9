// Computes a run's metrics incrementally from ended tasks and GPU spans. Stores only sums and, for
// percentiles, a few numbers per executed task.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/ids.h"
#include "core/values/task_state.h"
#include "report/metrics.h"
#include "report/run.h"

namespace carma::report {

// Sorts the values before summing them, so the result does not depend on their order.
Spread SpreadOf(std::vector<double> values);

// (Σx)² / (n · Σx²): 1 if all values are equal, 1/n if all but one are 0; 1 for an empty list.
double JainIndex(std::span<const double> values);

// The outcome of one task.
struct TaskOutcome {
  core::TaskState state = core::TaskState::kSucceeded;
  std::string_view group;  // empty if none
  std::string_view user;   // empty if unknown
  core::Time submitted{};
  std::optional<core::Time> ended;  // empty if not final; the task is then only counted
  // Total time between the ends of attempts and the requeues that followed them.
  core::Duration out_of_queue{};
  // Execution time of all attempts, and of the last one. Empty if the task's process never ran.
  std::optional<core::Duration> executed;
  std::optional<core::Duration> last_executed;
  std::optional<double> solo_s;        // RunTask::solo_s
  std::optional<double> whole_solo_s;  // RunTask::whole_solo_s
  std::optional<double> lost_s;        // RunTask::lost_s
  int gpus = 1;
  int attempts = 0;
  int ooms = 0;

  // Waiting plus execution time of a task that has ended. At least the execution time, even if the
  // clock was set back while the task existed.
  core::Duration Whole() const {
    return std::max(*ended - submitted - out_of_queue, executed.value_or(core::Duration{0}));
  }
};

// The outcome of a recorded task. It borrows the names of the group and the user.
TaskOutcome OutcomeOf(const RunTask& task);

// Usage of one GPU during part of the run, which lasts from the first submission to the last end.
struct GpuSpan {
  int gpu = 0;  // from 0
  core::Duration length{};
  double used_mib = 0;
  double sm_active = 0;  // 0..1, NaN if not reported
  double energy_j = 0;   // used in the span, NaN if not reported
};

// Tasks can be added in any order: the metrics are the same to the last bit. Spans of one GPU are
// summed in the order in which they are added.
class Tally {
 public:
  // Must be called once per task.
  void Add(const TaskOutcome& task);
  void Add(const GpuSpan& span);
  // First submission and last end of the ended tasks; empty if no task has ended.
  std::optional<core::Time> first_submitted() const { return first_; }
  std::optional<core::Time> last_ended() const { return last_; }
  // The metrics of everything added so far. The caller sets label, provenance and bounds.
  Metrics Finish() const;

 private:
  struct Sample {
    double waiting_s = 0;
    double execution_s = 0;
    double slowdown = 0;  // NaN if unknown
  };
  struct Group {
    std::int64_t tasks = 0;
    std::int64_t oom_crashes = 0;
    std::vector<Sample> samples;
  };
  struct GpuSums {
    double covered_s = 0;
    double mib_s = 0;
    double sm_s = 0;
    double sm_covered_s = 0;
    double energy_j = 0;  // NaN if a part was not reported
  };
  struct User {
    std::int64_t tasks = 0;
    std::int64_t gpu_ms = 0;
    std::vector<double> waiting_s;
    std::vector<double> stretch;
  };
  static GroupMetrics Measure(const Group& group);
  void MeasureUsers(Metrics& metrics) const;

  std::map<std::string, Group, std::less<>> groups_;
  std::map<std::string, User, std::less<>> users_;
  std::map<core::TaskState, std::int64_t> by_state_;
  std::vector<double> lost_s_;  // only tasks that lost time
  std::int64_t attempts_ = 0;
  std::optional<core::Time> first_, last_;
  std::vector<GpuSums> gpus_;
};

}  // namespace carma::report
