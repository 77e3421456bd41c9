// Finds running tasks that use more than they were given, from the monitor's values. Pure: values
// are passed in.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/values/ids.h"

namespace carma::daemon {

class Monitor;

// By how much a task exceeds its promise and the margin, on the GPU where it exceeds them most; 0:
// it does not, or it has no promise.
std::int64_t OverPromiseMib(const core::TaskRecord& record, std::int64_t margin_mib,
                            const Monitor& monitor);

// GPUs where a task has processes although it was not given them, for example because it set
// CUDA_VISIBLE_DEVICES itself. Their use counts there as foreign.
std::vector<core::GpuIndex> WrongGpus(const core::TaskRecord& record, const Monitor& monitor);

struct Sighting {
  core::TaskId id{};
  int attempt = 0;
  bool caught = false;  // now
};

// Selects the violations to report: each attempt once.
class FirstSightings {
 public:
  // Takes one reading of all running tasks; returns the new violations.
  std::set<core::TaskId> Take(const std::vector<Sighting>& running);

 private:
  std::map<core::TaskId, int> told_;  // attempts of running tasks
};

}  // namespace carma::daemon
