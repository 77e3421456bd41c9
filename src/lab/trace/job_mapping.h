// Makes a task trace of a cluster trace: every job becomes a workload of the catalogue.
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

// Shares of the weight classes among the tasks, the class of the shortest jobs first.
struct ClassShare {
  std::string weight_class;
  double share = 0;  // all together 1
};
// "light=65,medium=27,heavy=8": any positive numbers. Errors: kInvalid.
base::Result<std::vector<ClassShare>> ParseMix(std::string_view text);

struct MapOptions {
  std::vector<ClassShare> mix;
  bool keep_durations = false;  // tasks last as long as their jobs did (Submission::solo_s)
  // Each virtual cluster is a user: of traces that name groups and no people.
  bool groups_as_users = false;
  std::uint64_t seed = 1;
};

struct MappedTasks {
  TaskTrace trace;
  std::vector<std::size_t> by_class;  // tasks of each class of the mix
  std::size_t other_gpus = 0;   // jobs whose number of GPUs no workload has: the next lower one
  std::size_t no_duration = 0;  // jobs of unknown duration, taken as the median
};

// A job keeps its time of submission and its user (or group). It gets a workload with its number of
// GPUs (a share counts as one) or, if there is none, with the next lower or else the lowest number.
// Its class follows its duration: the shortest jobs are of the first class of the mix, until that
// class has its share, and so on; where a number of GPUs exists in some classes only, it is these
// that get the jobs, and the others make up for it as far as they can. Among the workloads of that
// class and number of GPUs the seed draws. Errors: kInvalid: a class without workloads, more than
// kMaxTraceTasks jobs, submissions later than a year.
base::Result<MappedTasks> MapJobs(const JobTrace& trace, const Catalogue& catalogue,
                                  const MapOptions& options);

}  // namespace carma::trace
