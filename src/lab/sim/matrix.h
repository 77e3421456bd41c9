// Runs several policies on the same load, each with several seeds, and returns metrics for reports.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "lab/sim/simulate.h"
#include "report/metrics.h"
#include "report/report.h"

namespace carma::sim {

// Returns the metrics of every run: one row per policy, with one entry per seed. The first seed is
// the policy's own. With EstimateOptions::carries, each run of a policy starts with what its
// earlier runs learned. The caller sets the label and provenance. If runs fail, returns
// Simulate()'s error for the first of them. threads: 0 means one per core; does not affect the
// results. done: called with the number of finished runs, from any thread but never from two at
// once.
Result<std::vector<std::vector<report::Metrics>>> SimulateMatrix(
    const Cluster& cluster, std::span<const Arrival> arrivals, std::span<const RunOptions> policies,
    int runs, int threads, const std::function<void(std::size_t)>& done = {});

// Runs a policy once and returns a report that includes the record, for figures.
Result<report::Report> SimulateRecorded(const Cluster& cluster, std::span<const Arrival> arrivals,
                                        RunOptions policy);

}  // namespace carma::sim
