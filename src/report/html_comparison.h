// Figures that compare cases, as sections of a report's page.
#pragma once

#include <string>
#include <vector>

#include "report/html_parts.h"
#include "report/report.h"

namespace carma::report {

// A bar for each case, figure by figure.
void PutComparison(std::string& out, const std::vector<Case>& cases);
// A line for each case: the distribution of its tasks' times.
void PutDistributions(std::string& out, const Recorded& cases);

}  // namespace carma::report
