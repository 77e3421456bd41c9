// Tasks that are alike to whoever places them on servers: they ask for the same, and as much is
// known of them. What a server would say of one it says of all. Private to sim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/policy/policy.h"
#include "core/values/task.h"
#include "lab/sim/node_counts.h"
#include "lab/trace/workloads.h"

namespace carma::sim {

// Workload, GPU type, user where that matters, what is predicted of memory, activity, sensitivity,
// pressure, grain and run time.
using AlikeKey =
    std::tuple<const trace::Workload*, std::string, std::string, std::string, std::uint32_t,
               std::int64_t, double, double, double, double, std::int64_t>;

struct Alike {
  core::TaskRequest request;
  std::optional<core::Estimate> estimate;
  core::Profile profile;
  CountAsked asked;                             // of each server
  std::vector<std::optional<bool>> could_take;  // by kind of server, empty

  // What servers answered (asked.cc): when it was told so much, how well the task would suit it;
  // empty: not now.
  struct Answer {
    std::uint64_t told = 0;
    std::optional<double> score;
  };
  std::vector<Answer> answers;
  std::vector<std::optional<core::Need>> needs;  // by kind of server
  // Nobody would take it as of this epoch, and so many touched servers of it.
  std::uint64_t none_epoch = 0;
  std::size_t none_touched = 0;
};

}  // namespace carma::sim
