// A task as its user describes it, whatever the form it came in: options, script with directives,
// or .rad file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/task.h"

namespace carma::task {

// Limits on what a description may hold; every reader enforces them.
inline constexpr std::size_t kMaxNameBytes = 256;
inline constexpr std::size_t kMaxPathBytes = 4096;
inline constexpr std::size_t kMaxArgBytes = 131'072;      // one argument or variable
inline constexpr std::size_t kMaxCommandBytes = 1 << 20;  // all arguments together
inline constexpr std::size_t kMaxArgs = 10'000;
inline constexpr std::size_t kMaxScriptBytes = 4 << 20;
inline constexpr int kMaxGpus = 1024;
inline constexpr std::size_t kMaxDependencies = 1000;
inline constexpr std::int64_t kMaxMemoryMib = std::int64_t{1} << 24;  // 16 TiB on one GPU
inline constexpr std::int64_t kMaxPriority = 1'000'000'000;
inline constexpr int kMaxRecoveries = 1000;
inline constexpr base::Duration kMaxTimeLimit = std::chrono::hours(24 * 3660);
inline constexpr std::int64_t kMaxBeginMs = 7'258'118'400'000;  // the year 2200
inline constexpr std::int64_t kMaxBatchSize = 1'000'000'000;
inline constexpr double kMinSmShare = 0.01;
// Most tasks one --array may make, and its highest index.
inline constexpr std::size_t kMaxArrayTasks = 10'000;
inline constexpr std::int64_t kMaxArrayIndex = 1'000'000'000;

struct TaskSpec {
  std::string name;                   // shown in lists; default: base name of script or command
  std::vector<std::string> command;   // argv, run without a shell; empty if `script` is the command
  std::optional<std::string> script;  // text of a batch script, run by its #! interpreter
  std::vector<std::string> script_args;
  std::optional<std::string> script_path;  // absolute, where `script` was read; for people only
  std::string workdir;                     // absolute
  std::map<std::string, std::string> environment;  // the submitter's exported variables
  std::optional<std::string>
      conda_env;  // name or absolute path; activated by PATH and CONDA_* variables
  int gpus = 1;
  std::optional<std::int64_t> memory_mib;  // peak per GPU, given by the user
  std::string memory_source = "given";     // "given", "rad" …: where memory_mib came from
  bool exclusive = false;
  // At most this share of each GPU's SMs, 0..1, where the way of sharing can enforce it.
  std::optional<double> sm_share;
  std::optional<std::string> model_summary;  // path of the model-summary file, absolute
  std::optional<std::int64_t> batch_size;
  std::optional<std::string> optimizer;  // "sgd", "sgd-momentum", "adam", "adamw" …
  std::optional<std::string> precision;  // "fp32", "amp", "bf16" …
  std::int64_t priority = 0;
  std::optional<base::Duration> time_limit;
  std::optional<base::Time> begin;
  std::vector<core::Dependency> dependencies;
  // Output paths, absolute after resolution; "%j" task id, "%x" name, "%u" user, "%a" array index,
  // "%%" percent.
  std::string stdout_path;  // default "<workdir>/carma-%j.out"
  std::string stderr_path;  // empty: together with stdout
  int max_recoveries = 3;
  bool requeue = true;
  bool held = false;
  std::optional<std::int64_t> array_index;  // one task of an array
  std::optional<std::int64_t> array_limit;  // at most so many of the array at once ("%n")
  std::optional<std::string> comment;
  friend bool operator==(const TaskSpec&, const TaskSpec&) = default;
};

// Name and stdout_path where they are empty, from the command and the working directory.
void FillDefaults(TaskSpec& spec);

// Every rule a spec must keep, whoever made it: limits, UTF-8 names, absolute paths, no NUL bytes,
// ranges. Errors: kInvalid "field: expected …".
base::Result<base::Unit> Validate(const TaskSpec& spec);

// The part the core decides on.
core::TaskRequest ToRequest(const TaskSpec& spec, std::uint32_t uid);

// One JSON object, the body of POST /v1/tasks and the store's column; absent fields take their
// defaults.
std::string ToJsonText(const TaskSpec& spec);
// Makes texts that mean the same as ToJsonText's. An environment like the one before costs nothing:
// in a batch of thousands all are alike, and they are most of every description.
class SpecWriter {
 public:
  std::string Text(const TaskSpec& spec);

 private:
  std::map<std::string, std::string> environment_;
  std::string environment_text_;  // of environment_, as JSON
};
// common: what absent fields are. Errors: kInvalid with JSON pointer; unknown fields are refused;
// Validate() is applied.
base::Result<TaskSpec> SpecFromJsonText(std::string_view text, const TaskSpec& common = {});

// "%j" and friends in an output path; a '/' in name or user becomes '_', "%a" outside an array is
// 0, unknown letters stay as they are.
std::string ExpandPath(const std::string& pattern, const TaskSpec& spec, core::TaskId id,
                       const std::string& user);

}  // namespace carma::task
