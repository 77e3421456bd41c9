// What became of the tasks of records, as sections of a report's page.
#pragma once

#include <string>

#include "report/records_by_case.h"

namespace carma::report {

// What tasks waited for: their first start, or another; nothing where none waited.
void PutWaits(std::string& out, const Recorded& cases);
// What the first in line waited for, the longest first: others wait for it.
void PutLineWaits(std::string& out, const Recorded& cases);
// Those that did not succeed, and why.
void PutFailures(std::string& out, const Recorded& cases);

}  // namespace carma::report
