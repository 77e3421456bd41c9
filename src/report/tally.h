// Metrics of a run while it goes on: fed with what ended and what the GPUs did, nothing is kept but
// sums and, for the percentiles, a few numbers per executed task.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/task.h"
#include "report/metrics.h"
#include "report/run.h"

namespace carma::report {

// Sorted before they are summed, so that the order cannot be seen in the last bit.
Spread SpreadOf(std::vector<double> values);

// (Σx)² / (n · Σx²): 1 where all are equal, 1/n where one has everything. Of nothing: 1.
double JainIndex(std::span<const double> values);

// What one task came to.
struct TaskOutcome {
  core::TaskState state = core::TaskState::kSucceeded;
  std::string_view group;  // empty: none
  std::string_view user;   // empty: not told
  core::Time submitted{};
  std::optional<core::Time> ended;  // empty: not final, only counted
  // All attempts together, and the last one alone; empty: its process never ran.
  std::optional<core::Duration> executed;
  std::optional<core::Duration> last_executed;
  std::optional<double> solo_s;        // RunTask::solo_s
  std::optional<double> whole_solo_s;  // RunTask::whole_solo_s
  std::optional<double> lost_s;        // RunTask::lost_s
  int gpus = 1;
  int attempts = 0;
  int ooms = 0;
};

// Of a task as records have it; its group and user are borrowed.
TaskOutcome OutcomeOf(const RunTask& task);

// What one GPU did over one span inside the run: from the first submission to the last end.
struct GpuSpan {
  int gpu = 0;  // from 0
  core::Duration length{};
  double used_mib = 0;
  double sm_active = 0;  // 0..1, NaN: not reported
  double energy_j = 0;   // spent in the span, NaN: not reported
};

// Equal outcomes in any order give equal metrics, bit by bit; spans of one GPU are summed in the
// order given.
class Tally {
 public:
  // Each task once.
  void Add(const TaskOutcome& task);
  void Add(const GpuSpan& span);
  // First submission and last end of the tasks that have ended; empty: none has.
  std::optional<core::Time> first_submitted() const { return first_; }
  std::optional<core::Time> last_ended() const { return last_; }
  // Of everything so far; label, provenance and bounds are the caller's to fill in.
  Metrics Finish() const;

 private:
  struct Sample {
    double waiting_s = 0;
    double execution_s = 0;
    double slowdown = 0;  // NaN: not known
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
    double energy_j = 0;  // NaN: a part was not reported
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
  std::vector<double> lost_s_;  // of those who lost any
  std::int64_t attempts_ = 0;
  std::optional<core::Time> first_, last_;
  std::vector<GpuSums> gpus_;
};

}  // namespace carma::report
