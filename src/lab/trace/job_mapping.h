// Makes a task trace from a cluster trace by assigning each job a workload from the catalogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/trace/job_trace.h"
#include "lab/trace/task_trace.h"
#include "lab/trace/workloads.h"

namespace carma::trace {

// Share of a weight class among the tasks. A mix lists the class of the shortest jobs first.
struct ClassShare {
  std::string weight_class;  // empty: all workloads
  double share = 0;          // all shares of a mix sum to 1
};
// Parses a mix like "light=65,medium=27,heavy=8" (any positive numbers) or returns kInvalid.
Result<std::vector<ClassShare>> ParseMix(std::string_view text);

inline constexpr const char* kUsualMix = "light=65,medium=27,heavy=8";
// kUsualMix if the catalogue has workloads of each of the mix's classes; otherwise a single class.
std::vector<ClassShare> MixFor(const Catalogue& catalogue);

struct MapOptions {
  std::vector<ClassShare> mix;
  bool keep_durations = false;  // tasks last as long as their jobs (Submission::solo_s)
  // Treats each virtual cluster as a user, for traces that name groups but no users.
  bool groups_as_users = false;
  std::uint64_t seed = 1;
};

struct MappedTasks {
  TaskTrace trace;
  std::vector<std::size_t> by_class;  // number of tasks in each class of the mix
  std::vector<std::size_t> quotas;    // what by_class would be according to the mix alone
  std::size_t other_gpus = 0;         // jobs with a GPU count that no workload has
  std::size_t no_duration = 0;        // jobs of unknown duration, which get the median
  std::size_t kept = 0;               // jobs that name a workload in the catalogue
  std::size_t never_ran = 0;          // jobs that never ran, which are skipped
};

// Turns jobs into tasks; jobs that never ran are skipped. A task keeps its job's submission time,
// user (or group) and, if the job names one, workload.
//
// Any other job gets a workload with the same number of GPUs (a share of a GPU counts as one) or,
// if there is none, with the next lower number, or else with the lowest. The workload's class
// depends on the job's duration: the shortest jobs get the first class of the mix until that class
// has its share, and so on. If only some classes have workloads of a certain size, these classes
// get all jobs of that size, and the other classes get their shares from the other jobs if
// possible. The seed chooses among workloads with the same class and size.
//
// Returns kInvalid if a class has no workloads, if there are more than kMaxTraceTasks jobs, or if
// submissions span more than a year.
Result<MappedTasks> MapJobs(const JobTrace& trace, const Catalogue& catalogue,
                            const MapOptions& options);

}  // namespace carma::trace
