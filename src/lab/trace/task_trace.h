// Traces: which workload is submitted when.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/trace/workloads.h"

namespace carma::trace {

inline constexpr std::size_t kMaxTraceTasks = 1'000'000;
inline constexpr base::Duration kMaxSubmission = std::chrono::hours(366 * 24);

struct Submission {
  base::Duration at{};  // since the trace's start
  std::string workload_id;
  int line = 0;                  // in the trace file
  std::optional<double> solo_s;  // lasts so long alone; absent: as the catalogue says
  std::string user;              // who submits it; empty: not told
  std::optional<double> cpus;    // as Workload::cpus; absent: as the catalogue says
  std::string gpu_type;          // only GPUs of that model; empty: any
  std::string qos;               // its class; empty: the usual one
  std::string account;           // whom it is booked on; empty: its user
};

struct TaskTrace {
  std::vector<Submission> submissions;  // rising `at`
};

// CSV with submit_s and workload_id, solo_s if a task lasts longer or shorter than its workload
// does, user, account and qos if the trace tells whose it is and of which class, cpus if it tells
// what its data loading takes, and gpu_type if it is for GPUs of one model only.
// Errors: kInvalid "path: line 7: …": no tasks, a time before the one above it, negative, or later
// than a year; a solo_s of nothing or of more than ten years.
base::Result<TaskTrace> ParseTrace(std::string_view csv, std::string_view path);
// The project's own 60 tasks (data/traces/demo60.csv), of the built-in catalogue; the same as text.
base::Result<TaskTrace> BuiltInDemo60();
std::string_view Demo60Csv();

// The workload of every submission, in order; pointers into the catalogue.
// Errors: kInvalid "path: line 7: …" for the first that is unknown or not usable.
base::Result<std::vector<const Workload*>> MatchWorkloads(const TaskTrace& trace,
                                                          const Catalogue& catalogue,
                                                          std::string_view path);

// The workload as this submission runs it: with the submission's own duration if it has one.
Workload AsSubmitted(const Workload& workload, const Submission& submission);

}  // namespace carma::trace
