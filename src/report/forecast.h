// Compares the predictions for a run's tasks with the measured values.
#pragma once

#include <span>
#include <vector>

#include "report/metrics.h"
#include "report/run.h"

namespace carma::report {

// Predicted and measured values of a finished task's last attempt: memory ("memory_mib"), time
// limit ("duration_s"), SM activity when running alone ("sm_active") and slowdown ("slowdown", per
// sharing method). The slowdown is included only if the task had neighbours and its solo run time
// was known. Quantities that were not predicted or not measured are omitted.
std::vector<Forecast> ForecastsOf(const core::TaskRecord& record);

// Returns metrics sorted by quantity, then method. Predictions of 0 have no ratio and are excluded.
std::vector<ForecastMetrics> JudgeForecasts(std::span<const RunTask> tasks);

}  // namespace carma::report
