// Writes SVG figures for an HTML page. Colours, fonts and line widths are CSS classes of the page,
// so the same drawing works on light screens, dark screens and paper.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carma::report {

// Makes untrusted text safe between tags and inside quotes: one line, truncated to max_bytes with
// "…".
std::string Escape(std::string_view text, std::size_t max_bytes = 200);

// A coordinate with at most two decimals: "12.5", "3".
std::string Coordinate(double value);

// A drawing of width x height units, scaled by the page. It escapes text; classes and path data are
// trusted.
class Svg {
 public:
  // what: a description of the drawing for screen readers.
  Svg(double width, double height, std::string_view what);

  void Rect(double x, double y, double width, double height, std::string_view css,
            std::string_view tip = "");
  void Line(double x1, double y1, double x2, double y2, std::string_view css);
  void Text(double x, double y, std::string_view text, std::string_view css);
  void Path(std::string_view data, std::string_view css, std::string_view tip = "");
  std::string Finish() &&;

 private:
  void Element(std::string_view name, std::string_view attributes, std::string_view css,
               std::string_view tip);
  std::string text_;
};

// A point of a curve. If y is NaN, there is a gap until the next point.
struct XY {
  double x = 0;
  double y = 0;
};

// Reduces a curve to at most `most` points without changing its appearance. The curve is divided
// into equal spans of x, and each span keeps its gaps and its first, lowest, highest and last
// value. Points must be sorted by x. most: at least 8.
std::vector<XY> Thin(std::span<const XY> curve, std::size_t most);

// Maps values to coordinates of the drawing.
struct Scale {
  double low = 0;
  double high = 1;
  double from = 0;  // where `low` is drawn
  double to = 1;    // where `high` is drawn
  // The position of a value; `from` if the range is empty or the value is not finite.
  double operator()(double value) const;
};

// Path data of a curve. Each value applies until the next point, and the last one until end_x.
std::string StepPath(std::span<const XY> curve, double end_x, const Scale& x, const Scale& y);
// The same curve, closed along the bottom edge so that it can be filled.
std::string StepArea(std::span<const XY> curve, double end_x, const Scale& x, const Scale& y);

struct Tick {
  double at = 0;
  std::string text;
};
// Round values (1, 2 or 5 times a power of ten) from 0 to at most `high`, in at most `most` steps.
std::vector<Tick> NiceTicks(double high, int most);
// The same for durations in seconds: whole seconds, minutes, hours or days, labelled with their
// unit.
std::vector<Tick> TimeTicks(double high_s, int most);
// Ticks at round times of day: "14:00", "14:00:30", and "23 Nov" at midnight. from_s: the beginning
// of the axis, in seconds since the displayed clock's epoch. Tick::at is relative to from_s.
std::vector<Tick> ClockTicks(double from_s, double length_s, int most);
// The next round value at or above `high`, as the end of an axis. NiceEnd(0) is 1.
double NiceEnd(double high);

}  // namespace carma::report
