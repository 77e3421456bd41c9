// The record of one run of a simulated or real server: attempts with their times and GPUs, and the
// state of each GPU over time. It is the only source of metrics and figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/words.h"
#include "core/values/ids.h"
#include "core/values/task_state.h"

namespace carma::report {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
inline constexpr std::int64_t kMaxMs = 1'000'000'000'000'000;  // 31 000 years

// Rules for JSON fields: names, counts and other amounts.
inline constexpr base::FieldRule kNameRule{.max_bytes = 4096};
inline constexpr base::FieldRule kCountRule{.low = 0};
inline constexpr base::FieldRule kAmountRule{.least = 0, .most = 1e18};

enum class AttemptEnd { kSucceeded, kOutOfMemory, kFailed, kStopped, kUnfinished };
inline constexpr std::pair<AttemptEnd, std::string_view> kAttemptEndWords[] = {
    {AttemptEnd::kSucceeded, "succeeded"},
    {AttemptEnd::kOutOfMemory, "out_of_memory"},
    {AttemptEnd::kFailed, "failed"},
    {AttemptEnd::kStopped, "stopped"},
    {AttemptEnd::kUnfinished, "unfinished"}};

// One execution of a task, from the launch of its process to its end.
struct Attempt {
  core::Time started{};
  core::Time ended{};  // the end of the record if kUnfinished
  AttemptEnd end = AttemptEnd::kSucceeded;
  std::vector<int> gpus;                 // indices into RunRecord::gpus, ascending
  std::optional<double> promised_mib{};  // on each GPU; empty if none or unknown
  // Time from the task's end after this attempt until a user requeued it. Does not count as
  // waiting.
  core::Duration out_of_queue{};
  // When the task began to wait for its next attempt.
  core::Time WaitsFrom() const { return ended + out_of_queue; }
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// A prediction for a task, with the measured value.
struct Forecast {
  std::string what;                // a quantity with its unit: "memory_mib"
  std::string by;                  // the method: "structural", "history", "given" …
  double predicted = 0;            // the most likely value
  std::optional<double> promised;  // the upper bound that was promised
  double seen = 0;
  static void VisitFields(auto& field, auto& self) {
    field("what", self.what, "", {.max_bytes = 100});
    field("by", self.by, "", {.max_bytes = 100});
    field("predicted", self.predicted, "", {.least = 0, .most = 1e15});
    field("promised", self.promised, "", {.least = 0, .most = 1e15});
    field("seen", self.seen, "", {.least = 0, .most = 1e15});
  }
  friend bool operator==(const Forecast&, const Forecast&) = default;
};

struct RunTask {
  std::uint64_t id = 0;
  std::string name;   // workload or task name
  std::string group;  // "light", "medium", "heavy", a user …; empty: none
  std::string user;   // empty if unknown
  int gpus = 1;
  core::Time submitted{};
  std::optional<core::Time> ended;  // empty if not final
  core::TaskState state = core::TaskState::kSucceeded;
  std::string reason;  // why it ended in this state; empty if unknown
  // Solo run time of the last attempt's work on its GPUs, from launch to end. Empty if unknown.
  std::optional<double> solo_s;
  // Solo run time of all the task's work on its GPUs, including work that earlier attempts saved.
  // Empty if they saved none: solo_s then covers all the work.
  std::optional<double> whole_solo_s;
  // Time lost to checkpoints and to making room for other tasks: saving, repeated work and
  // restarts. Empty if zero or unknown.
  std::optional<double> lost_s;
  std::vector<Attempt> attempts;    // by time
  std::vector<Forecast> forecasts;  // of the last attempt; empty until the task has ended
  friend bool operator==(const RunTask&, const RunTask&) = default;
};

// Mean values from `at` until the next point or the end of the record.
struct GpuPoint {
  core::Time at{};
  double used_mib = 0;   // NaN for a gap until the next point
  double sm_active = 0;  // 0..1, NaN if not reported
  double power_w = 0;    // NaN if not reported
};

struct RunGpu {
  std::string name;              // "GPU 0", "node 3 GPU 1"
  std::string type;              // "A100-40GB"; empty if unknown
  std::int64_t usable_mib = 0;   // 0 if unknown
  std::vector<GpuPoint> points;  // by time; may be thinned out without changing the means
};

// A lower bound on the makespan under any policy (report/bounds.h).
struct Bound {
  std::string name;  // "longest task", "SM activity area" …
  double makespan_s = 0;
  static void VisitFields(auto& field, auto& self) {
    field("name", self.name, "", kNameRule);
    field("makespan_s", self.makespan_s, "", kAmountRule);
  }
  friend bool operator==(const Bound&, const Bound&) = default;
};

struct RunRecord {
  std::string label;       // "MAGM + GPUMemNet 80 %, MPS"; replays of one case share it
  std::string provenance;  // the command that repeats the run, or where it was recorded
  bool simulated = false;
  core::Time from{};           // the first submission
  core::Time to{};             // end of the last task, or time of the recording
  std::vector<RunTask> tasks;  // by id
  std::vector<RunGpu> gpus;
  std::vector<Bound> bounds;
  // How long the head of the queue waited, by reason ("GpuMemory"). Empty if it never waited or its
  // waits were not recorded.
  std::map<std::string, double> line_waits_s;
};

// Reduces each GPU to at most `most` points. Each point is the mean over the known parts of a span,
// and all spans have equal length. Without gaps, means and energy over the run do not change. most:
// at least 1.
void Condense(RunRecord& run, std::size_t most);

}  // namespace carma::report

namespace carma {
template <>
inline constexpr base::Words<report::AttemptEnd> base::kWordsOf<report::AttemptEnd> =
    report::kAttemptEndWords;
}  // namespace carma
