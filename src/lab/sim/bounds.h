// How far could any policy go with this load on these servers?
#pragma once

#include <span>
#include <vector>

#include "lab/sim/simulate.h"
#include "report/run.h"

namespace carma::sim {

// Lower bounds on the makespan (report/bounds.h) under the models of these options, without the
// noise of single runs: no run of the load without noise is shorter. With
// RunOptions::slowdown_limit also one for policies that keep it. None where the servers' GPUs
// differ, because a bound knows one kind.
std::vector<report::Bound> BoundsOf(const Cluster& cluster, std::span<const Arrival> arrivals,
                                    const RunOptions& options);

}  // namespace carma::sim
