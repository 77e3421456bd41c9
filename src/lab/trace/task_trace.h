// Traces of tasks: submission times and workloads.
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
  base::Duration at{};  // counted from the trace's start
  std::string workload_id;
  int line = 0;                  // line in the trace file
  std::optional<double> solo_s;  // duration when running alone; empty: as in the catalogue
  std::string user;              // empty: unknown
  std::optional<double> cpus;    // as Workload::cpus; empty: as in the catalogue
  std::string gpu_type;          // the only GPU model that the task may use; empty: any
  std::string qos;               // class; empty: the default class
  std::string account;           // empty: no account
};

struct TaskTrace {
  std::vector<Submission> submissions;  // in ascending order of `at`
};

// Optional columns of a task trace, in the order that WishesText uses.
inline constexpr std::string_view kWishColumns = "account,qos,cpus,gpu_type";
// The values of kWishColumns, such as "vision,,4,A100"; empty if the task sets none of them.
std::string WishesText(const Submission& task);
// Sets the task's values from a string in the format of WishesText.
void SetWishes(Submission& task, std::string_view text);

// Parses CSV with submit_s and workload_id. Optional columns: solo_s (if a task's duration differs
// from its workload's), user, account, qos, cpus (cores for data loading), and gpu_type (the only
// model that the task may use). Returns kInvalid "path:7: …" if there are no tasks, if a submission
// time is negative, earlier than the previous one or later than a year, or if a solo_s is zero or
// longer than ten years.
Result<TaskTrace> ParseTrace(std::string_view csv, std::string_view path);
// The project's own trace of 60 tasks for the built-in catalogue, as text and as a parsed trace.
extern const std::string_view kDemo60Csv;  // data/traces/demo60.csv
Result<TaskTrace> BuiltInDemo60();

// The workload of every submission, in order, as pointers into the catalogue. Returns kInvalid
// "path:7: …" for the first workload that is unknown or not usable.
Result<std::vector<const Workload*>> MatchWorkloads(const TaskTrace& trace,
                                                    const Catalogue& catalogue,
                                                    std::string_view path);

// Returns the workload with the submission's own duration, if it has one.
Workload AsSubmitted(const Workload& workload, const Submission& submission);

}  // namespace carma::trace
