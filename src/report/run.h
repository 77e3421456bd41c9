// One run of a server, simulated or real, as reports see it: who ran when and where, and what the
// GPUs did. Metrics and figures are computed from this alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/task.h"

namespace carma::report {

enum class AttemptEnd { kSucceeded, kOutOfMemory, kFailed, kStopped, kUnfinished };

// One execution: from the launch of its process to its end.
struct Attempt {
  core::Time started{};
  core::Time ended{};  // kUnfinished: the end of the run
  AttemptEnd end = AttemptEnd::kSucceeded;
  std::vector<int> gpus;  // indices into RunRecord::gpus
};

struct RunTask {
  std::uint64_t id = 0;
  std::string name;   // workload or task name
  std::string group;  // "light", "medium", "heavy", a user …; empty: none
  int gpus = 1;
  core::Time submitted{};
  std::optional<core::Time> ended;  // empty: not final
  core::TaskState state = core::TaskState::kSucceeded;
  std::vector<Attempt> attempts;  // by time
};

// From `at` until the next point (or the end of the run) these values hold, or are the means.
struct GpuPoint {
  core::Time at{};
  float used_mib = 0;
  float sm_active = 0;  // 0..1, NaN: not reported
  float power_w = 0;    // NaN: not reported
};

struct RunGpu {
  std::string name;  // "GPU 0", "node 3 GPU 1"
  std::string type;  // "A100-40GB"
  std::int64_t usable_mib = 0;
  std::vector<GpuPoint> points;  // by time; may be thinned out
};

// A lower bound on the makespan of any policy, docs/metrics.md.
struct Bound {
  std::string name;  // "longest task", "SM activity area" …
  double makespan_s = 0;
};

struct RunRecord {
  std::string label;       // "MAGM + GPUMemNet 80 %, MPS"
  std::string provenance;  // the line that makes it again, or where it was recorded
  bool simulated = false;
  core::Time from{};           // the first submission
  core::Time to{};             // the last task has retired
  std::vector<RunTask> tasks;  // by id
  std::vector<RunGpu> gpus;
  std::optional<double> energy_j;  // exact, all GPUs; empty: from the points
  std::vector<Bound> bounds;
};

}  // namespace carma::report
