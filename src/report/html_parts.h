// Parts of the sections of a report's page.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/report.h"

namespace carma::report {

// Widths of drawings: one, two or three side by side on the page.
inline constexpr double kWhole = 1190, kHalf = 590, kThird = 385;

// Appends HTML.
template <class... Args>
void Put(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

// The name of a run or case for people.
std::string NameOf(const std::string& label);
// caption: empty: none.
void PutFigure(std::string& out, std::string_view caption, const std::string& drawing);
// A symbol of 22 x 11 for a key.
std::string Swatch(std::string_view shape);

// The records among reports: each case that has records, with its records, in order of the cases.
using Recorded = std::vector<std::pair<std::string, std::vector<const RunRecord*>>>;
// Borrows from the reports. A report without label is a separate case.
Recorded RecordsOf(std::span<const Report> reports);

}  // namespace carma::report
