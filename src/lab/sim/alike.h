// Tasks that are equal for placement: they have the same request and the same predictions, so a
// server's answer for one is valid for all. Private to sim.
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

// Workload, GPU type, user if relevant, predicted memory, activity, sensitivity, pressure, grain
// and run time.
using AlikeKey =
    std::tuple<const trace::Workload*, std::string, std::string, std::string, std::uint32_t,
               std::int64_t, double, double, double, double, std::int64_t>;

struct Alike {
  core::TaskRequest request;
  std::optional<core::Estimate> estimate;
  core::Profile profile;
  CountAsked asked;                             // of each server
  std::vector<std::optional<bool>> could_take;  // by kind of server, when empty

  // A server's answer (asked.cc): the number of event batches it had received, and how well the
  // task would fit; empty: it cannot start now.
  struct Answer {
    std::uint64_t told = 0;
    std::optional<double> score;
  };
  std::vector<Answer> answers;
  std::vector<std::optional<core::Need>> needs;  // by kind of server
  // No server would take such a task, as of this epoch and this number of touched servers.
  std::uint64_t none_epoch = 0;
  std::size_t none_touched = 0;
};

}  // namespace carma::sim
