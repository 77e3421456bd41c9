// The best that any policy could reach with this load on these servers.
#pragma once

#include <span>
#include <vector>

#include "lab/sim/simulate.h"
#include "report/run.h"

namespace carma::sim {

// Lower bounds on the makespan (report/bounds.h) under the models of these options: no run without
// noise is shorter. RunOptions::slowdown_limit adds a bound for policies that keep this limit.
// Empty if the servers' GPUs differ, because the bounds assume one type.
std::vector<report::Bound> BoundsOf(const Cluster& cluster, std::span<const Arrival> arrivals,
                                    const RunOptions& options);

}  // namespace carma::sim
