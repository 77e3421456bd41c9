// The records among reports, by case.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/report.h"

namespace carma::report {

// Each case that has records, with these, in order of the cases.
using Recorded = std::vector<std::pair<std::string, std::vector<const RunRecord*>>>;
// Borrows from the reports. A report without label is a separate case.
Recorded RecordsOf(std::span<const Report> reports);

}  // namespace carma::report
