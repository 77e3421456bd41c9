// The metrics of a run as defined in the dissertation, for real and simulated runs alike.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/values/ids.h"
#include "core/values/task_state.h"
#include "report/run.h"

namespace carma::report {

// Statistics of one quantity over all executed tasks.
struct Spread {
  double mean = 0;
  double median = 0;
  double p95 = 0;  // 95th percentile (nearest rank)
  double max = 0;
  static void VisitFields(auto& field, auto& self) {
    field("mean", self.mean, "", kAmountRule);
    field("median", self.median, "", kAmountRule);
    field("p95", self.p95, "", kAmountRule);
    field("max", self.max, "", kAmountRule);
  }
  friend bool operator==(const Spread&, const Spread&) = default;
};

// Metrics of one group of tasks. Times are in seconds.
struct GroupMetrics {
  std::string name;
  std::int64_t tasks = 0;
  std::int64_t executed = 0;
  std::int64_t oom_crashes = 0;
  Spread waiting;
  Spread execution;
  Spread jct;
  std::optional<Spread> slowdown;
  static void VisitFields(auto& field, auto& self) {
    field("name", self.name, "", kNameRule);
    field("tasks", self.tasks, "", kCountRule);
    field("executed", self.executed, "", kCountRule);
    field("oom_crashes", self.oom_crashes, "", kCountRule);
    field("waiting_s", self.waiting);
    field("execution_s", self.execution);
    field("jct_s", self.jct);
    field("slowdown", self.slowdown);
  }
  friend bool operator==(const GroupMetrics&, const GroupMetrics&) = default;
};

// Metrics of one user's executed tasks.
struct UserMetrics {
  std::string name;
  std::int64_t tasks = 0;
  double gpu_s = 0;           // execution time multiplied by the number of GPUs
  double waiting_mean_s = 0;  // mean wait of a task
  double stretch_mean = 0;    // completion time / solo run time (execution time if unknown)
  static void VisitFields(auto& field, auto& self) {
    field("name", self.name, "", kNameRule);
    field("tasks", self.tasks, "", kCountRule);
    field("gpu_s", self.gpu_s, "", kAmountRule);
    field("waiting_mean_s", self.waiting_mean_s, "", kAmountRule);
    field("stretch_mean", self.stretch_mean, "", kAmountRule);
  }
  friend bool operator==(const UserMetrics&, const UserMetrics&) = default;
};

// The accuracy of one method's forecasts for one quantity.
struct ForecastMetrics {
  std::string what;
  std::string by;
  std::int64_t tasks = 0;
  Spread ratio;               // measured / predicted
  std::int64_t promised = 0;  // tasks with a promised bound
  std::int64_t kept = 0;      // promised bounds that held
  static void VisitFields(auto& field, auto& self) {
    field("what", self.what, "", kNameRule);
    field("by", self.by, "", kNameRule);
    field("tasks", self.tasks, "", kCountRule);
    field("seen_by_predicted", self.ratio);
    field("promised", self.promised, "", kCountRule);
    field("kept", self.kept, "", kCountRule);
  }
  friend bool operator==(const ForecastMetrics&, const ForecastMetrics&) = default;
};

// Defined in section 6.3 of the dissertation (docs/server/metrics.md). An "executed" task has ended
// and ran at least once.
struct Metrics {
  std::string label;
  std::string provenance;
  bool simulated = false;
  std::optional<std::uint64_t> seed;                                     // of a simulated run
  std::vector<std::pair<core::TaskState, std::int64_t>> tasks_by_state;  // in TaskState order
  std::int64_t tasks = 0;
  std::int64_t executed = 0;
  std::int64_t oom_crashes = 0;  // attempts that ran out of GPU memory, even if recovered
  std::int64_t attempts = 0;     // launches of all tasks
  // Tasks that servers returned to the cluster's queue; absent without a cluster.
  std::optional<std::int64_t> requeues;

  core::Time first_submitted{};
  core::Time last_ended{};
  double trace_total_s = 0;  // from the first submission until the last task has ended
  Spread waiting;            // seconds in the queue before and between executions
  Spread execution;          // seconds in execution over all attempts
  Spread jct;                // seconds from submission to completion: waiting + execution
  // Execution time of the successful attempt divided by the task's solo run time. Absent if the
  // solo run time is unknown for all tasks.
  std::optional<Spread> slowdown;
  // Time lost to checkpoints and to making room for other tasks (RunTask::lost_s), as a share of
  // the total execution time. Absent if zero or unknown.
  std::optional<double> lost_share;
  std::vector<GroupMetrics> groups;        // sorted by name; ungrouped tasks are excluded
  std::vector<ForecastMetrics> forecasts;  // sorted by quantity and method

  // The next three values are set only if there are two or more users.
  std::vector<UserMetrics> users;  // sorted by name
  std::optional<double> jain;      // Jain's index of the users' mean stretches; 1: equal
  std::optional<double> worst_user_waiting_s;  // longest mean wait of any user

  // GPU metrics over [first_submitted, last_ended]: means over time and GPUs; absent if not
  // reported.
  int gpus = 0;
  std::optional<double> memory_used_mib;  // per GPU
  std::optional<double> sm_active;        // 0..1
  std::optional<double> energy_mj;        // all GPUs
  std::optional<double> power_w;          // all GPUs together
  double gpu_coverage = 0;                // share of the time that has records, 0..1

  std::vector<Bound> bounds;
  // Visits all fields except tasks_by_state, whose keys are states.
  static void VisitFields(auto& field, auto& self) {
    field("label", self.label, "", kNameRule);
    field("provenance", self.provenance, "", kNameRule);
    field("simulated", self.simulated);
    field("seed", self.seed);
    field("tasks", self.tasks, "", kCountRule);
    field("executed", self.executed, "", kCountRule);
    field("oom_crashes", self.oom_crashes, "", kCountRule);
    field("attempts", self.attempts, "", kCountRule);
    field("requeues", self.requeues, "", kCountRule);
    field("first_submitted_ms", self.first_submitted, "", {.low = -kMaxMs, .high = kMaxMs});
    field("last_ended_ms", self.last_ended, "", {.low = -kMaxMs, .high = kMaxMs});
    field("trace_total_s", self.trace_total_s, "",
          {.least = 0,
           .most = 1e18,
           .required = true,
           .expected = "the run's total time in seconds"});
    field("waiting_s", self.waiting);
    field("execution_s", self.execution);
    field("jct_s", self.jct);
    field("slowdown", self.slowdown);
    field("groups", self.groups, "", {.max_items = 1'000});
    field("forecasts", self.forecasts, "", {.max_items = 1'000});
    field("users", self.users);
    field("lost_share", self.lost_share, "", kAmountRule);
    field("jain", self.jain, "", {.least = 0, .most = 1 + 1e-9});
    field("worst_user_waiting_s", self.worst_user_waiting_s, "", kAmountRule);
    field("gpus", self.gpus, "", {.low = 0, .high = 1'000'000});
    field("memory_used_mib", self.memory_used_mib, "", kAmountRule);
    field("sm_active", self.sm_active, "", {.least = 0, .most = 1});
    field("energy_mj", self.energy_mj, "", kAmountRule);
    field("power_w", self.power_w, "", kAmountRule);
    field("gpu_coverage", self.gpu_coverage, "", kAmountRule);
    field("bounds", self.bounds, "", {.max_items = 100});
  }
  friend bool operator==(const Metrics&, const Metrics&) = default;
};

// Computes the metrics from the record alone. Only tasks that have ended count, except in
// tasks_by_state, attempts and oom_crashes. GPU points count from the first submission to the last
// end of these tasks. All times are 0 if no task was executed.
Metrics Compute(const RunRecord& run);

nlohmann::json ToJson(const Metrics& metrics);
// Returns kInvalid, with a JSON pointer, for invalid values. Unknown fields are ignored.
Result<Metrics> FromJson(const nlohmann::json& json);
// JSON as one line of text.
std::string ToJsonText(const Metrics& metrics);

}  // namespace carma::report
