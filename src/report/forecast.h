// Predicted against seen, over the tasks of a run.
#pragma once

#include <span>
#include <vector>

#include "core/values/task.h"
#include "report/metrics.h"
#include "report/run.h"

namespace carma::report {

// What was said of a task before its last attempt, and what came of it; none of one that has not
// ended. What was never predicted or never seen is left out. Of memory ("memory_mib"), of how long
// it may take ("duration_s"), of its SM activity alone ("sm_active") and, of one that had
// neighbours and whose run time alone was known, of how much they slowed it down ("slowdown", by
// the method of sharing).
std::vector<Forecast> ForecastsOf(const core::TaskRecord& record);

// By quantity, then method. What was predicted as 0 has no ratio and is left out.
std::vector<ForecastMetrics> JudgeForecasts(std::span<const RunTask> tasks);

}  // namespace carma::report
