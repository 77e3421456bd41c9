#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace carma::report {

std::string BarChart(std::string_view what, std::span<const Bar> bars,
                     std::span<const BarMark> marks, double high, std::span<const Tick> ticks,
                     double width) {
  constexpr double kRow = 22, kThick = 13, kValue = 70, kAxis = 18, kMarkRow = 12;
  constexpr double kLetter = 7, kLeastLabel = 60;
  constexpr std::size_t kMostLetters = 30;
  double label_width = kLeastLabel;
  for (const Bar& bar : bars) {
    const auto letters = static_cast<double>(std::min(kMostLetters, bar.label.size()));
    label_width = std::max(label_width, letters * kLetter + 8);
  }
  const double top = static_cast<double>(marks.size()) * kMarkRow + 4;
  const double bottom = top + static_cast<double>(bars.size()) * kRow;
  Svg svg(width, bottom + kAxis, what);
  const Scale x{.low = 0, .high = high, .from = label_width, .to = width - kValue};
  for (const Tick& tick : ticks) {
    svg.Line(x(tick.at), top, x(tick.at), bottom, "rule");
    svg.Text(x(tick.at), bottom + 13, tick.text, "tick mid");
  }
  std::vector<double> ends;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const double y = top + static_cast<double>(i) * kRow + (kRow - kThick) / 2;
    svg.Text(label_width - 6, y + kThick - 3, base::Printable(bar.label, kMostLetters),
             "label end");
    double sum = 0;
    for (const BarPart& part : bar.parts) {
      svg.Rect(x(sum), y, x(sum + part.value) - x(sum), kThick, part.css,
               bar.label + ": " + bar.text);
      sum += part.value;
    }
    double end = x(sum);
    if (bar.error > 0) {
      const double low = x(std::max(0.0, sum - bar.error)), middle = y + kThick / 2;
      end = x(sum + bar.error);
      svg.Path(fmt::format("M{0} {2}H{1}M{0} {3}V{4}M{1} {3}V{4}", Coordinate(low), Coordinate(end),
                           Coordinate(middle), Coordinate(middle - 3), Coordinate(middle + 3)),
               "error");
    }
    ends.push_back(end);
  }
  const auto mark_y = [](std::size_t i) { return static_cast<double>(i + 1) * kMarkRow; };
  for (std::size_t i = 0; i < marks.size(); ++i)
    svg.Line(x(marks[i].value), mark_y(i) - 6, x(marks[i].value), bottom, "mark");
  // Text is drawn last, so that its outline covers the lines behind it.
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double y = top + static_cast<double>(i) * kRow + (kRow - kThick) / 2;
    svg.Text(ends[i] + 5, y + kThick - 3, bars[i].text, "value");
  }
  // Draws the names of the marks above the bars, one per row so that they never overlap.
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const double at = x(marks[i].value), y = mark_y(i);
    const bool right = at < (label_width + width) / 2;
    svg.Text(right ? at + 4 : at - 4, y, marks[i].name, right ? "tick" : "tick end");
  }
  return std::move(svg).Finish();
}

std::string CdfChart(std::string_view what, std::span<const Distribution> cases,
                     std::span<const Tick> ticks, double high, double width) {
  constexpr double kHeight = 190, kLeft = 38, kRight = 10, kTop = 8, kBottom = 168;
  constexpr std::size_t kMostPoints = 400;
  Svg svg(width, kHeight, what);
  const Scale x{.low = 0, .high = high, .from = kLeft, .to = width - kRight};
  const Scale y{.low = 0, .high = 1, .from = kBottom, .to = kTop};
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    svg.Line(kLeft, y(share), width - kRight, y(share), "rule");
    svg.Text(kLeft - 5, y(share) + 3.5, fmt::format("{:.0f} %", share * 100), "tick end");
  }
  for (const Tick& tick : ticks) {
    svg.Line(x(tick.at), kTop, x(tick.at), kBottom, "rule");
    svg.Text(x(tick.at), kBottom + 13, tick.text, "tick mid");
  }
  for (const Distribution& each : cases) {
    if (each.values.empty()) continue;
    std::vector<double> sorted = each.values;
    std::ranges::sort(sorted);
    std::vector<XY> curve{{0, 0}};
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      // Only the last of several equal values is drawn, so that they form one step.
      if (i + 1 < sorted.size() && sorted[i + 1] == sorted[i]) continue;
      curve.push_back({sorted[i], static_cast<double>(i + 1) / static_cast<double>(sorted.size())});
    }
    svg.Path(StepPath(Thin(curve, kMostPoints), high, x, y), "line " + each.css, each.label);
  }
  return std::move(svg).Finish();
}

}  // namespace carma::report
