// Parsers for submit option values.
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

// On failure, the parsers in this file return kInvalid with a message such as "expected a date, not
// 'x'". The caller adds the name of the option.
std::unexpected<base::Error> Expected(std::string_view expected, std::string_view text);

// Parses a task's earliest start time, relative to `now`:
//   2026-03-01, 2026-03-01T14:05[:30][Z]    local time, or UTC with Z
//   14:05[:30], midnight, noon              the next such time, local time
//   now, now+1hour, now+90 (seconds), tomorrow, +30m, +1h30m
Result<base::Time> ParseBegin(std::string_view text, base::Time now);

struct ArrayPlan {
  std::vector<std::int64_t> indices;  // ascending, without duplicates
  std::optional<std::int64_t> limit;  // "%n"
};
// Parses "0-15", "1,3,7-9" or "0-15:4", each optionally followed by "%n".
Result<ArrayPlan> ParseArray(std::string_view text);

// Parses "afterok:1:2,afterany:3,afternotok:4", or "none".
Result<std::vector<core::Dependency>> ParseDependencies(std::string_view text);

struct GpuCount {
  int gpus = 1;
  std::optional<std::string> type;   // GPU model: "a100"
  std::vector<std::string> remarks;  // ignored parts of the text, for a warning
  bool counted = true;               // false if the text gives no GPU count
};
// Parses "2" or "a100:2".
Result<GpuCount> ParseGpus(std::string_view text);
// Parses "gpu:2", "gpu:a100:2", "gpu" or "none"; other resources may follow: "gpu:2,lscratch:100".
// "shard:4" and "mps:50" mean one GPU.
Result<GpuCount> ParseGres(std::string_view text);

// Parses a list of GPUs without duplicates, such as "2,3" or "GPU-5d6e…".
Result<std::vector<std::string>> ParseGpuNames(std::string_view text);
// Parses part of a GPU name: "a100", "RTX 6000". Returns empty for "any".
Result<std::optional<std::string>> ParseGpuType(std::string_view text);

struct Constraint {
  std::optional<std::string> gpu_type;
  std::vector<std::string> others;  // words that are not known GPU types
};
// Parses Slurm's node features, such as "a100" or "a100&ib". Only GPU types are meaningful on a
// single server.
Constraint ParseConstraint(std::string_view text);

// Parses "30%" or "0.3" as 0.3. The result is between 0.01 and 1.
Result<double> ParseShare(std::string_view text);

struct ExportPlan {
  bool all = true;  // start with the submitter's environment
  // Names with their values. A missing value is taken from the submitter's environment.
  std::vector<std::pair<std::string, std::optional<std::string>>> variables;
};
// Parses "ALL", "NONE", "NAME,NAME=value" or "ALL,NAME=value".
Result<ExportPlan> ParseExport(std::string_view text);

}  // namespace carma::task
