// Figures that compare runs: bar charts of metrics, and distributions over tasks.
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
  std::vector<BarPart> parts;  // drawn end to end
  double error = 0;            // half the length of the bar's error bar; 0 if none
  std::string text;            // the value as text, at the end of the bar
};
// A reference value, drawn as a mark so that every bar can be compared with it.
struct BarMark {
  double value = 0;
  std::string name;
};
// Draws horizontal bars on an axis from 0 to `high`.
std::string BarChart(std::string_view what, std::span<const Bar> bars,
                     std::span<const BarMark> marks, double high, std::span<const Tick> ticks,
                     double width);

// The curve of one case.
struct Distribution {
  std::string label;
  std::string css;             // "line0" …
  std::vector<double> values;  // in any order, finite
};
// Draws cumulative distributions: for each value, the share of tasks at or below it. Distributions
// without values are omitted.
std::string CdfChart(std::string_view what, std::span<const Distribution> cases,
                     std::span<const Tick> ticks, double high, double width);

}  // namespace carma::report
