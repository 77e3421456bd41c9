// A group of tasks with the same request and the same predictions. The tasks are interchangeable
// for placement, so a server's answer for one task is valid for the whole group. Private to sim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/policy/policy.h"
#include "core/values/promise.h"
#include "core/values/task_request.h"
#include "lab/sim/node_counts.h"
#include "lab/trace/workloads.h"

namespace carma::sim {

// The key of a group: its workload, GPU type, user (if relevant), predicted memory, activity,
// sensitivity, pressure, grain and run time.
using AlikeKey =
    std::tuple<const trace::Workload*, std::string, std::string, std::string, std::uint32_t,
               std::int64_t, double, double, double, double, std::int64_t>;

struct Alike {
  core::TaskRequest request;
  std::optional<core::Estimate> estimate;
  core::Profile profile;
  CountAsked asked;  // what Slurm allocates on each server
  // Whether an empty server of each kind could take the task, indexed by kind.
  std::vector<std::optional<bool>> could_take;

  // A server's answer (asked.cc): how well the task would fit, or empty if it cannot start now.
  // `told` is the number of event batches that the server had received when it answered.
  struct Answer {
    std::uint64_t told = 0;
    std::optional<double> score;
  };
  std::vector<Answer> answers;
  std::vector<std::optional<core::Need>> needs;  // by kind of server
  // AskedPlacing's epoch_ and touched_.size() at the last check that found no server for tasks of
  // this group.
  std::uint64_t none_epoch = 0;
  std::size_t none_touched = 0;
};

}  // namespace carma::sim
