// Running tasks that use what they were not given, told from what the monitor sees. Pure: values
// are handed in.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/values/task.h"

namespace carma::daemon {

class Monitor;

// How much more than its promise and the margin a task uses, on the GPU where that is most; 0: it
// does not, or was promised nothing.
std::int64_t OverPromiseMib(const core::TaskRecord& record, std::int64_t margin_mib,
                            const Monitor& monitor);

// GPUs where a task has processes though it was not given them, as after it has set
// CUDA_VISIBLE_DEVICES itself. What they use counts there as a stranger's.
std::vector<core::GpuIndex> WrongGpus(const core::TaskRecord& record, const Monitor& monitor);

struct Sighting {
  core::TaskId id{};
  int attempt = 0;
  bool caught = false;  // now
};

// Who is to be told of: each attempt once.
class FirstSightings {
 public:
  // One look at all running tasks.
  std::set<core::TaskId> Take(const std::vector<Sighting>& running);

 private:
  std::map<core::TaskId, int> told_;  // attempts of running tasks
};

}  // namespace carma::daemon
