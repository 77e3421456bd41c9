// GPU samples during a run, and the file of measured runs. The file has one JSON object per line,
// appended after each run, so `carma profile` can continue after an interruption.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "lab/verbs/profile/plan.h"

namespace carma::cli {

struct ProfileSample {
  double at_s = 0;
  std::optional<double> sm_active;    // mean since the previous sample
  std::optional<double> utilization;  // the driver's coarse utilisation
  std::int64_t used_mib = 0;
  std::optional<double> energy_j;
};
// When a GPU was first and last active.
struct ActiveSpan {
  double from_s = 0;
  double until_s = 0;
};
// Finds the active span of a run. In the first and last active samples, the GPU counts as active
// for only part of the time. That part is the sample's activity divided by the usual activity. Uses
// the coarse utilisation if there is no SM activity. Empty if both are unknown or the GPU was never
// active. Samples must be in chronological order. The first sample only marks where the second
// begins, and the last should be later than any activity.
std::optional<ActiveSpan> ActiveSpanOf(std::span<const ProfileSample> samples);
// The time integral of the SM activity over all samples, even those outside the span, divided by
// to_s - from_s; at most 1. Empty if unknown.
std::optional<double> MeanSmActive(std::span<const ProfileSample> samples, double from_s,
                                   double to_s);

inline constexpr std::size_t kMaxProfileRuns = 100'000;
inline constexpr std::size_t kMaxRunsBytes = std::size_t{256} << 20;

inline constexpr base::FieldRule kRunSecondsRule{.least = 0, .most = 1e9};

// One process of a run. Times are in seconds since the start of the run.
struct RunInstance {
  int member = 0;  // index in PlannedRun::members
  double begin_s = 0;
  double end_s = 0;
  int code = 0;          // exit code
  bool stopped = false;  // `carma profile` stopped it because every member had finished once
  static void VisitFields(auto& field, auto& self) {
    field("member", self.member, "", {.low = 0});
    field("begin_s", self.begin_s, "", kRunSecondsRule);
    field("end_s", self.end_s, "", kRunSecondsRule);
    field("code", self.code, "", {.low = -1, .high = 255});
    field("stopped", self.stopped);
  }
  friend bool operator==(const RunInstance&, const RunInstance&) = default;
};

struct MeasuredRun {
  PlannedRun run;
  std::string gpu;  // UUID of the whole GPU, even for runs on its instances
  std::vector<RunInstance> instances;
  // The next three values are set only for a member that ran alone.
  std::optional<double> load_s;            // time until the GPU was active
  std::optional<double> unload_s;          // from the end of activity until the process exits
  std::optional<double> sm_active;         // mean over the active span
  std::optional<std::int64_t> memory_mib;  // peak memory on the GPU above the initial use
  std::optional<double> energy_j;          // GPU energy until the last process exited
  std::string failed;                      // why the run is not usable, or empty
  static void VisitFields(auto& field, auto& self) {
    PlannedRun::VisitFields(field, self.run);
    field("gpu", self.gpu, "", {.max_bytes = profile::kMaxNameBytes});
    field("instances", self.instances, "",
          {.max_items = 10'000, .required = true, .expected = "a list"});
    field("load_s", self.load_s, "", kRunSecondsRule);
    field("unload_s", self.unload_s, "", kRunSecondsRule);
    field("sm_active", self.sm_active, "", {.least = 0, .most = 1});
    field("memory_mib", self.memory_mib, "", {.low = 0, .high = std::int64_t{1} << 40});
    field("energy_j", self.energy_j, "", {.least = 0, .most = 1e15});
    field("failed", self.failed, "", {.max_bytes = 4096, .unless_empty = true});
  }
  friend bool operator==(const MeasuredRun&, const MeasuredRun&) = default;
};

std::string MeasuredRunJson(const MeasuredRun& run);
// A kInvalid error tells which part of the line is wrong.
Result<MeasuredRun> ParseMeasuredRun(std::string_view line);
// The runs in a results file, and the size of its complete lines.
struct KeptRuns {
  std::vector<MeasuredRun> runs;
  std::size_t whole_bytes = 0;
};
// Ignores an incomplete last line, which begins at `whole_bytes`. Returns kInvalid with the line
// number for any other invalid line.
Result<KeptRuns> ParseMeasuredRuns(std::string_view text, std::string_view where);

// The results folder. Only one `carma profile` at a time can open it for writing.
class ResultFolder {
 public:
  // Creates the folder if necessary. Returns kConflict if another `carma profile` is using it, or
  // kInvalid if its runs.jsonl contains an invalid line.
  static Result<ResultFolder> Open(const std::string& path);
  // Opens the folder for reading only, so Add and Write are not allowed. Nothing is created or
  // locked. A missing folder has no runs.
  static Result<ResultFolder> Look(const std::string& path);
  const std::string& path() const { return path_; }
  const std::vector<MeasuredRun>& runs() const { return runs_; }
  // The run is durable when Add returns.
  Result<Unit> Add(MeasuredRun run);
  Result<Unit> Write(const std::string& name, std::string_view text) const;
  // Empty if the file does not exist.
  Result<std::string> Read(const std::string& name) const;

 private:
  explicit ResultFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
  base::UniqueFd file_;
  std::vector<MeasuredRun> runs_;
};

}  // namespace carma::cli
