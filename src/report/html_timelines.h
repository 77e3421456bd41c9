// Figures over time, as sections of a report's page.
#pragma once

#include <optional>
#include <string>

#include "report/clock.h"
#include "report/html_parts.h"

namespace carma::report {

// Maximum number of runs drawn over time: the first with a record of each case.
inline constexpr std::size_t kMaxDrawnRuns = 6;

// clock: of the axes if one run is drawn; empty: they begin at 0.
void PutTimelines(std::string& out, const Recorded& cases, const std::optional<Clock>& clock);
// Memory, activity and power of the GPUs alone.
void PutGpus(std::string& out, const RunRecord& run, Clock clock);

}  // namespace carma::report
