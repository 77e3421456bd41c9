// Tables of metrics, as sections of a report's page.
#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace carma::report {

// Compares all cases with the first.
void PutMetrics(std::string& out, const std::vector<Case>& cases);
// Tables by group of tasks, by user and by prediction, for those that the cases contain.
void PutGroups(std::string& out, const std::vector<Case>& cases);
void PutUsers(std::string& out, const std::vector<Case>& cases);
void PutForecasts(std::string& out, const std::vector<Case>& cases);

}  // namespace carma::report
