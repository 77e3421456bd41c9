// Computes bounds on what any policy could achieve with a load on given servers. Pure functions.
#pragma once

#include <span>
#include <vector>

#include "core/values/sharing.h"
#include "lab/sim/models.h"
#include "lab/sim/simulate.h"
#include "report/run.h"

namespace carma::sim {

// For each load, the highest SM activity (sum of u_i * speed_i) that one GPU can deliver while it
// runs a task with this load and no task is slowed down more than `limit`. The task's neighbours
// can have any of the loads, and several can have the same one. If the search takes too long,
// returns the sharing method's maximum, which is a weaker but still valid bound. limit: at least 1.
// sharing: kMps or kStreams.
std::vector<double> MostDelivered(const Interference& model, core::SharingMethod sharing,
                                  std::span<const Load> loads, double limit);

// Lower bounds on the makespan (report/bounds.h) of runs without noise, under the models in
// `options`. RunOptions::slowdown_limit adds a bound that applies only to policies that respect
// this limit. Empty if the servers' GPUs are of different types.
std::vector<report::Bound> BoundsOf(const Cluster& cluster, std::span<const Arrival> arrivals,
                                    const RunOptions& options);

}  // namespace carma::sim
