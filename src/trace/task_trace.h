// Traces: which workload is submitted when.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "trace/workloads.h"

namespace carma::trace {

inline constexpr std::size_t kMaxTraceTasks = 1'000'000;

struct Submission {
  base::Duration at{};  // since the trace's start
  std::string workload_id;
  int line = 0;  // in the trace file
};

struct TaskTrace {
  std::vector<Submission> submissions;  // rising `at`
};

// CSV with submit_s and workload_id. Errors: kInvalid "path: line 7: …": no tasks, a time before
// the one above it, negative, or later than a year.
base::Result<TaskTrace> ParseTrace(std::string_view csv, std::string_view path);
// The project's own 60 tasks (data/traces/demo60.csv), of the built-in catalogue.
base::Result<TaskTrace> BuiltInDemo60();

// The workload of every submission, in order; pointers into the catalogue.
// Errors: kInvalid "path: line 7: …" for the first that is unknown or not usable.
base::Result<std::vector<const Workload*>> MatchWorkloads(const TaskTrace& trace,
                                                          const Catalogue& catalogue,
                                                          std::string_view path);

}  // namespace carma::trace
