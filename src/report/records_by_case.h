// The records among reports, by case.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/report.h"

namespace carma::report {

// Each case with its records, of which there is at least one, in order of the cases.
using Recorded = std::vector<std::pair<std::string, std::vector<const RunRecord*>>>;
// Borrows from the reports. Those without a label are cases of their own.
Recorded RecordsOf(std::span<const Report> reports);

}  // namespace carma::report
