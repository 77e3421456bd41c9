// Figures over time, as sections of a report's page.
#pragma once

#include <optional>
#include <string>

#include "report/clock.h"
#include "report/html_parts.h"

namespace carma::report {

// Maximum number of runs drawn over time. The first run with a record is drawn for each case.
inline constexpr std::size_t kMaxDrawnRuns = 6;

// clock: the clock of the axes if one run is drawn; if empty, they begin at 0.
void PutTimelines(std::string& out, const Recorded& cases, const std::optional<Clock>& clock);
// Only memory, activity and power of the GPUs.
void PutGpus(std::string& out, const RunRecord& run, Clock clock);

}  // namespace carma::report
