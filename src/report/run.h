// One run of a server, simulated or real, as reports see it: who ran when and where, and what the
// GPUs did. Metrics and figures are computed from this alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/values/task.h"

namespace carma::report {

enum class AttemptEnd { kSucceeded, kOutOfMemory, kFailed, kStopped, kUnfinished };

// One execution: from the launch of its process to its end.
struct Attempt {
  core::Time started{};
  core::Time ended{};  // kUnfinished: the end of the record
  AttemptEnd end = AttemptEnd::kSucceeded;
  std::vector<int> gpus;                 // indices into RunRecord::gpus, rising
  std::optional<double> promised_mib{};  // to it on each of them; empty: nothing, or not known
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// What was said of a task before it ran, beside what came of it.
struct Forecast {
  std::string what;                // a quantity with its unit: "memory_mib"
  std::string by;                  // who said it: "structural", "history", "given" …
  double predicted = 0;            // the most likely value
  std::optional<double> promised;  // what was counted on, an upper bound
  double seen = 0;
  friend bool operator==(const Forecast&, const Forecast&) = default;
};

struct RunTask {
  std::uint64_t id = 0;
  std::string name;   // workload or task name
  std::string group;  // "light", "medium", "heavy", a user …; empty: none
  std::string user;   // empty: not told
  int gpus = 1;
  core::Time submitted{};
  std::optional<core::Time> ended;  // empty: not final
  core::TaskState state = core::TaskState::kSucceeded;
  std::string reason;  // why it ended so, for people; empty: not told
  // Launch to end alone on its GPUs, of the work of its last attempt; empty: not known.
  std::optional<double> solo_s;
  // The same of all its work, where earlier attempts have kept a part of it; empty: as solo_s.
  std::optional<double> whole_solo_s;
  // What saving and leaving for others cost it: the writing, work that had to be done again, and
  // starting again. Empty: not known, or nothing.
  std::optional<double> lost_s;
  std::vector<Attempt> attempts;    // by time
  std::vector<Forecast> forecasts;  // of its last attempt; empty while it has not ended
  friend bool operator==(const RunTask&, const RunTask&) = default;
};

// From `at` until the next point (or the end of the record) these are the means.
struct GpuPoint {
  core::Time at{};
  double used_mib = 0;   // NaN: nothing was recorded from here to the next point
  double sm_active = 0;  // 0..1, NaN: not reported
  double power_w = 0;    // NaN: not reported
};

struct RunGpu {
  std::string name;              // "GPU 0", "node 3 GPU 1"
  std::string type;              // "A100-40GB"; empty: not known
  std::int64_t usable_mib = 0;   // 0: not known
  std::vector<GpuPoint> points;  // by time; may be thinned out, as long as the means stay
};

// A lower bound on the makespan of any policy (report/bounds.h).
struct Bound {
  std::string name;  // "longest task", "SM activity area" …
  double makespan_s = 0;
  friend bool operator==(const Bound&, const Bound&) = default;
};

struct RunRecord {
  std::string label;       // "MAGM + GPUMemNet 80 %, MPS"; replays of one case share it
  std::string provenance;  // the line that makes it again, or where it was recorded
  bool simulated = false;
  core::Time from{};           // the first submission
  core::Time to{};             // the last task has retired, or when the record was taken
  std::vector<RunTask> tasks;  // by id
  std::vector<RunGpu> gpus;
  std::vector<Bound> bounds;
  // How long the first task in line waited, by reason ("GpuMemory"); empty: nobody waited, or it
  // was not recorded.
  std::map<std::string, double> line_waits_s;
};

// Leaves at most `most` points (at least 1) of each GPU: means over equal spans of time, each of
// what is known in it. Means and energy over the run stay where there are no holes.
void Condense(RunRecord& run, std::size_t most);

}  // namespace carma::report
