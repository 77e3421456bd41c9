// Several policies on the same load, each with several seeds, as metrics for reports.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "lab/sim/simulate.h"
#include "report/metrics.h"
#include "report/report.h"

namespace carma::sim {

// Metrics of every run: one row per policy with one entry per seed, beginning with the policy's
// seed. With EstimateOptions::carries each run of a policy starts with what its earlier runs
// learned. The number of threads does not affect the results. The caller sets label and provenance.
// `done` gets the number of finished runs, from any thread. Errors: those of Simulate for the first
// failed run.
Result<std::vector<std::vector<report::Metrics>>> SimulateMatrix(
    const Cluster& cluster, std::span<const Arrival> arrivals, std::span<const RunOptions> policies,
    int runs, int threads, const std::function<void(std::size_t)>& done = {});

// Runs a policy once and returns the report with its record, for figures.
Result<report::Report> SimulateRecorded(const Cluster& cluster, std::span<const Arrival> arrivals,
                                        RunOptions policy);

}  // namespace carma::sim
