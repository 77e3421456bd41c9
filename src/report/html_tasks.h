// Results of tasks, as sections of a report's page.
#pragma once

#include <string>

#include "report/html_parts.h"

namespace carma::report {

// The reasons why tasks waited. Puts nothing if no task waited.
void PutWaits(std::string& out, const Recorded& cases);
// The reasons why the head of the queue waited, longest wait first.
void PutLineWaits(std::string& out, const Recorded& cases);
// Tasks that did not succeed, and why.
void PutFailures(std::string& out, const Recorded& cases);

}  // namespace carma::report
