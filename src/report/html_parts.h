// Helpers for writing the sections of a report's page.
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

// Widths of drawings when one, two or three are side by side on the page.
inline constexpr double kWhole = 1190, kHalf = 590, kThird = 385;

// Appends formatted HTML.
template <class... Args>
void Put(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

// The displayed name of a run or case.
std::string NameOf(const std::string& label);
// An empty caption is left out.
void PutFigure(std::string& out, std::string_view caption, const std::string& drawing);
// A 22 x 11 symbol for a figure's key.
std::string Swatch(std::string_view shape);

// The cases that have records, in order, each with its records.
using Recorded = std::vector<std::pair<std::string, std::vector<const RunRecord*>>>;
// Borrows from the reports. A report without label is a separate case.
Recorded RecordsOf(std::span<const Report> reports);

}  // namespace carma::report
