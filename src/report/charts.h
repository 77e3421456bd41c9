// Figures that compare runs: bars of their metrics, distributions over their tasks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/svg.h"

namespace carma::report {

struct BarPart {
  double value = 0;
  std::string css;  // "part0", "part1" …
};
struct Bar {
  std::string label;
  std::vector<BarPart> parts;  // one after another
  double error = 0;            // of the whole, to both sides; 0: none
  std::string text;            // the value, at the end
};
// A value with which all bars are compared, drawn as a mark.
struct BarMark {
  double value = 0;
  std::string name;
};
// Horizontal bars that begin at 0. ticks: the marks of the axis, which ends at `high`.
std::string BarChart(std::string_view what, std::span<const Bar> bars,
                     std::span<const BarMark> marks, double high, std::span<const Tick> ticks,
                     double width);

// One curve of the figure, for one case.
struct Distribution {
  std::string label;
  std::string css;             // "line0" …
  std::vector<double> values;  // in any order, finite
};
// Share of the tasks at or below a value. Distributions without values are left out.
std::string CdfChart(std::string_view what, std::span<const Distribution> cases,
                     std::span<const Tick> ticks, double high, double width);

}  // namespace carma::report
