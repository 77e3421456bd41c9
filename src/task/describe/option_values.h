// Parsers for the values of submit options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/values/task_request.h"

namespace carma::task {

// All errors are kInvalid and name the expected value, but not the option: "expected a date, not
// 'x'".
std::unexpected<base::Error> Expected(std::string_view expected, std::string_view text);

// When a task may start; relative to `now`:
//   2026-03-01, 2026-03-01T14:05[:30][Z]    local time, or UTC with Z
//   14:05[:30], midnight, noon              the next one, local time
//   now, now+1hour, now+90 (seconds), tomorrow, +30m, +1h30m
Result<base::Time> ParseBegin(std::string_view text, base::Time now);

struct ArrayPlan {
  std::vector<std::int64_t> indices;  // ascending, each once
  std::optional<std::int64_t> limit;  // "%n"
};
// "0-15", "1,3,7-9", "0-15:4", each optionally followed by "%n".
Result<ArrayPlan> ParseArray(std::string_view text);

// "afterok:1:2,afterany:3,afternotok:4".
Result<std::vector<core::Dependency>> ParseDependencies(std::string_view text);

struct GpuCount {
  int gpus = 1;
  std::optional<std::string> type;   // of model: "a100"
  std::vector<std::string> remarks;  // ignored parts, for a warning
  bool counted = true;               // false: no count of GPUs given
};
// "2", "a100:2".
Result<GpuCount> ParseGpus(std::string_view text);
// "gpu:2", "gpu:a100:2", "gpu", "none", also with other resources: "gpu:2,lscratch:100". "shard:4"
// and "mps:50" mean one GPU.
Result<GpuCount> ParseGres(std::string_view text);

// "2,3", "GPU-5d6e…": names of GPUs without repetition.
Result<std::vector<std::string>> ParseGpuNames(std::string_view text);
// A part of a GPU's name: "a100", "RTX 6000"; "any" is empty.
Result<std::optional<std::string>> ParseGpuType(std::string_view text);

struct Constraint {
  std::optional<std::string> gpu_type;
  std::vector<std::string> others;  // words that name no known GPU type
};
// Slurm's node features, of which only GPU types have a meaning on one server: "a100", "a100&ib".
Constraint ParseConstraint(std::string_view text);

// "30%" or "0.3" -> 0.3; from 0.01 to 1.
Result<double> ParseShare(std::string_view text);

struct ExportPlan {
  bool all = true;  // start with the submitter's environment
  // Name, and its value; empty: the submitter's.
  std::vector<std::pair<std::string, std::optional<std::string>>> variables;
};
// "ALL", "NONE", "NAME,NAME=value", "ALL,NAME=value".
Result<ExportPlan> ParseExport(std::string_view text);

}  // namespace carma::task
