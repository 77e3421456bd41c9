// Figures that compare cases, as sections of a report's page.
#pragma once

#include <string>
#include <vector>

#include "report/html_parts.h"
#include "report/report.h"

namespace carma::report {

// One figure per metric, with a bar for each case.
void PutComparison(std::string& out, const std::vector<Case>& cases);
// The distribution of task times, with a line for each case.
void PutDistributions(std::string& out, const Recorded& cases);

}  // namespace carma::report
