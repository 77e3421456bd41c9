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
// runs a task with this load and no task exceeds slowdown `limit`. The task's neighbours can be any
// of the loads, each any number of times. The result lies between the load's own activity and the
// sharing method's maximum. If the search would take too long, the maximum is returned: a weaker
// bound, but still a valid one. limit: at least 1. sharing: kMps or kStreams.
std::vector<double> MostDelivered(const Interference& model, core::SharingMethod sharing,
                                  std::span<const Load> loads, double limit);

// Lower bounds on the makespan (report/bounds.h) under the models in `options`. No run without
// noise can be shorter. RunOptions::slowdown_limit adds a bound for policies that respect this
// limit. Empty if the servers' GPUs differ, because the bounds assume a single type.
std::vector<report::Bound> BoundsOf(const Cluster& cluster, std::span<const Arrival> arrivals,
                                    const RunOptions& options);

}  // namespace carma::sim
