// Parts of the sections of a report's page.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace carma::report {

// Widths of drawings: one, two or three beside each other on the page.
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

}  // namespace carma::report
