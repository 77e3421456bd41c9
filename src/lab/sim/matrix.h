// Several policies on the same load, each with several seeds, as reports see them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "lab/sim/simulate.h"
#include "report/metrics.h"
#include "report/report.h"

namespace carma::sim {

// Metrics of every run: one row per policy, in it one entry per seed, the policy's seed and those
// that follow it. Where EstimateOptions::carries is set each of a policy's runs starts with what
// the runs before it taught. The number of threads cannot be seen in them. Label and provenance are
// the caller's. `done` is told the number of finished runs, from any thread. Errors: those of
// Simulate, of the first run that failed.
base::Result<std::vector<std::vector<report::Metrics>>> SimulateMatrix(
    const Cluster& cluster, std::span<const Arrival> arrivals, std::span<const RunOptions> policies,
    int runs, int threads, const std::function<void(std::size_t)>& done = {});

// One run with its record, for figures.
base::Result<report::Report> SimulateRecorded(const Cluster& cluster,
                                              std::span<const Arrival> arrivals, RunOptions policy);

}  // namespace carma::sim
