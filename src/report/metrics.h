// The dissertation's metrics of a run, from the books alone: the same for real and simulated runs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/task.h"
#include "store/store.h"

namespace carma::report {

// One quantity over all executed tasks, in seconds.
struct Spread {
  double mean = 0;
  double median = 0;
  double p95 = 0;  // nearest rank: the smallest value that at least 95 % do not exceed
  double max = 0;
  friend bool operator==(const Spread&, const Spread&) = default;
};

// Definitions follow the dissertation, section 6.3 (docs/metrics.md). An "executed" task is one
// that has ended and whose process ran at least once.
struct Metrics {
  std::string label;
  std::vector<std::pair<core::TaskState, std::int64_t>> tasks_by_state;  // in order of the states
  std::int64_t tasks = 0;
  std::int64_t executed = 0;
  std::int64_t oom_crashes = 0;  // attempts that ran out of GPU memory, recovered ones included
  std::int64_t attempts = 0;     // launches, all tasks

  core::Time first_submitted{};
  core::Time last_ended{};
  double trace_total_s = 0;  // first submission received until the last task has retired
  Spread waiting;            // in the queue, before the first execution and between executions
  Spread execution;          // in execution, all attempts
  Spread jct;                // submission to completion: waiting + execution

  // GPUs over [first_submitted, last_ended], means over time and GPUs; absent: not reported.
  int gpus = 0;
  std::optional<double> memory_used_mib;  // per GPU
  std::optional<double> sm_active;        // 0..1
  std::optional<double> energy_mj;        // all GPUs
  std::optional<double> power_w;          // all GPUs together
  double gpu_coverage = 0;                // part of that time for which there are records, 0..1
  friend bool operator==(const Metrics&, const Metrics&) = default;
};

// Tasks in any order. Events: those of state changes, in order of time; execution is the time
// between "running" and the next state that is neither running nor stopping, so that failed
// attempts count. A task without such events (pruned) counts its last attempt only. Usage: one row
// per GPU and span, in any order; rows are cut at the ends of the run. An unfinished task counts in
// tasks_by_state and nowhere else. Without executed tasks every time is 0.
Metrics Compute(std::string label, std::span<const store::StoredTask> tasks,
                std::span<const store::StoredEvent> events, std::span<const store::GpuUsage> usage);

nlohmann::json ToJson(const Metrics& metrics);
// Errors: kInvalid with JSON pointer. Unknown fields are passed over.
base::Result<Metrics> FromJson(const nlohmann::json& json);
// The same as one line of text, as `carma report --json` prints it.
std::string ToJsonText(const Metrics& metrics);
base::Result<Metrics> FromJsonText(const std::string& text);

// Two columns, name and value, for people.
std::string Table(const Metrics& metrics);
// Side by side, one column per run; all but the first also say how they differ from it in percent.
std::string Compare(std::span<const Metrics> runs);

}  // namespace carma::report
