#include "report/records_by_case.h"

#include <algorithm>

namespace carma::report {

Recorded RecordsOf(std::span<const Report> reports) {
  Recorded cases;
  for (const Report& report : reports) {
    if (!report.run) continue;
    const std::string& label = report.metrics.label;
    auto known = std::find_if(cases.begin(), cases.end(), [&](const auto& each) {
      return !label.empty() && each.first == label;
    });
    if (known == cases.end()) known = cases.insert(cases.end(), {label, {}});
    known->second.push_back(&*report.run);
  }
  return cases;
}

}  // namespace carma::report
