// Results of the records' tasks, as sections of a report's page.
#pragma once

#include <string>

#include "report/html_parts.h"

namespace carma::report {

// Reasons for which tasks waited; nothing if none waited.
void PutWaits(std::string& out, const Recorded& cases);
// Reasons for which the head of the queue waited, the longest first.
void PutLineWaits(std::string& out, const Recorded& cases);
// Tasks that did not succeed, and why.
void PutFailures(std::string& out, const Recorded& cases);

}  // namespace carma::report
