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
  std::optional<double> solo_s;  // duration alone; absent: as in the catalogue
  std::string user;              // its user; empty: unknown
  std::optional<double> cpus;    // as Workload::cpus; absent: as in the catalogue
  std::string gpu_type;          // only GPUs of that model; empty: any
  std::string qos;               // its class; empty: the default one
  std::string account;           // its account; empty: none
};

struct TaskTrace {
  std::vector<Submission> submissions;  // in ascending order of `at`
};

// Columns of a task trace, in the order of WishesText.
inline constexpr std::string_view kWishColumns = "account,qos,cpus,gpu_type";
// "vision,,4,A100"; empty if the task states none of them.
std::string WishesText(const Submission& task);
// Takes them from such a text.
void SetWishes(Submission& task, std::string_view text);

// CSV with submit_s and workload_id, and optionally solo_s (if a task's duration differs from its
// workload's), user, account, qos, cpus (cores for data loading), and gpu_type (only GPUs of that
// model).
// Errors: kInvalid "path: line 7: …": no tasks, a time before the one above it, negative, or later
// than a year; a solo_s of 0 or of more than ten years.
Result<TaskTrace> ParseTrace(std::string_view csv, std::string_view path);
// The project's own trace of 60 tasks (data/traces/demo60.csv) for the built-in catalogue, parsed
// and as text.
Result<TaskTrace> BuiltInDemo60();
std::string_view Demo60Csv();

// The workload of every submission, in order, as pointers into the catalogue. Errors: kInvalid
// "path: line 7: …" for the first that is unknown or not usable.
Result<std::vector<const Workload*>> MatchWorkloads(const TaskTrace& trace,
                                                    const Catalogue& catalogue,
                                                    std::string_view path);

// The workload as this submission runs it: with the submission's own duration if it has one.
Workload AsSubmitted(const Workload& workload, const Submission& submission);

}  // namespace carma::trace
