// Tables of metrics, as sections of a report's page.
#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace carma::report {

// The first case is what the others are compared with.
void PutMetrics(std::string& out, const std::vector<Case>& cases);
// By group of tasks, by user, by what was predicted; nothing where the cases have none.
void PutGroups(std::string& out, const std::vector<Case>& cases);
void PutUsers(std::string& out, const std::vector<Case>& cases);
void PutForecasts(std::string& out, const std::vector<Case>& cases);

}  // namespace carma::report
