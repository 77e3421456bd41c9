// Finds running tasks that use more memory than they were promised, or GPUs that were not assigned
// to them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/values/ids.h"

namespace carma::daemon {

class Monitor;

// How far a task exceeds its claim (the memory promised when it was placed) plus the margin, on the
// GPU with the largest excess. Returns 0 if there is no excess or no claim.
std::int64_t OverPromiseMib(const core::TaskRecord& record, std::int64_t margin_mib,
                            const Monitor& monitor);

// GPUs on which a task has processes although they were not assigned to it, for example because the
// task set CUDA_VISIBLE_DEVICES itself. The task's processes there are treated like those of other
// programs.
std::vector<core::GpuIndex> WrongGpus(const core::TaskRecord& record, const Monitor& monitor);

// Says whether an attempt violated a policy at the last reading.
struct Sighting {
  core::TaskId id{};
  int attempt = 0;
  bool caught = false;
};

// Selects the violations to report. Each attempt is reported only once.
class FirstSightings {
 public:
  // Processes one reading of all running tasks. Returns the tasks with new violations.
  std::set<core::TaskId> Take(const std::vector<Sighting>& running);

 private:
  std::map<core::TaskId, int> told_;  // reported attempts of running tasks
};

}  // namespace carma::daemon
