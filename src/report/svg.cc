#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/text.h"

namespace carma::report {
namespace {

constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// The smallest step (1, 2 or 5 times a power of ten) that reaches `high` in at most `most` steps.
double NiceStep(double high, int most) {
  const double power = std::pow(10, std::floor(std::log10(high / most)));
  for (const double factor : {1, 2, 5}) {
    if (std::floor(high / (factor * power) + 1e-9) <= most) return factor * power;
  }
  return 10 * power;
}

// Returns the first step that divides `length` into at most `most` steps. If all of them are too
// small, returns a multiple of a day.
double TimeStep(std::span<const double> steps, double length, int most) {
  constexpr double kDayS = 86'400;
  const auto step = std::ranges::find_if(steps, [&](double each) { return length / each <= most; });
  return step != steps.end() ? *step : kDayS * NiceStep(length / kDayS, most);
}

bool Drawable(double high) {
  return std::isfinite(high) && high > 0;
}

// Draws each part of a curve between two gaps.
std::string Steps(std::span<const XY> curve, double end_x, const Scale& x, const Scale& y,
                  bool closed) {
  std::string data;
  bool open = false;
  const auto close = [&] {
    if (closed && open) data += "V" + Coordinate(y.from) + "Z";
    open = false;
  };
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (!std::isfinite(curve[i].y)) {
      close();
      continue;
    }
    const std::string value = Coordinate(y(curve[i].y));
    if (open) {
      data += "V" + value;
    } else if (closed) {
      data += "M" + Coordinate(x(curve[i].x)) + " " + Coordinate(y.from) + "V" + value;
    } else {
      data += "M" + Coordinate(x(curve[i].x)) + " " + value;
    }
    open = true;
    data += "H" + Coordinate(x(i + 1 < curve.size() ? curve[i + 1].x : end_x));
  }
  close();
  return data;
}

}  // namespace

std::string Escape(std::string_view text, std::size_t max_bytes) {
  constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string escaped;
  for (const char c : base::Printable(text, max_bytes)) {
    const auto* const entity =
        std::ranges::find(kEntities, c, [](const auto& e) { return e.first; });
    escaped += entity == std::end(kEntities) ? std::string_view(&c, 1) : entity->second;
  }
  return escaped;
}

std::string Coordinate(double value) {
  if (!std::isfinite(value)) return "0";
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

// ---- Svg ----

Svg::Svg(double width, double height, std::string_view what)
    : text_(fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)",
                        Coordinate(width), Coordinate(height), Escape(what))) {}

void Svg::Element(std::string_view name, std::string_view attributes, std::string_view css,
                  std::string_view tip) {
  text_ += fmt::format(R"(<{} {} class="{}")", name, attributes, css);
  text_ += tip.empty() ? "/>" : fmt::format("><title>{}</title></{}>", Escape(tip, 400), name);
}

void Svg::Rect(double x, double y, double width, double height, std::string_view css,
               std::string_view tip) {
  Element("rect",
          fmt::format(R"(x="{}" y="{}" width="{}" height="{}")", Coordinate(x), Coordinate(y),
                      Coordinate(std::max(0.0, width)), Coordinate(std::max(0.0, height))),
          css, tip);
}

void Svg::Line(double x1, double y1, double x2, double y2, std::string_view css) {
  Path(fmt::format("M{} {}L{} {}", Coordinate(x1), Coordinate(y1), Coordinate(x2), Coordinate(y2)),
       css);
}

void Svg::Text(double x, double y, std::string_view text, std::string_view css) {
  text_ += fmt::format(R"(<text x="{}" y="{}" class="{}">{}</text>)", Coordinate(x), Coordinate(y),
                       css, Escape(text));
}

void Svg::Path(std::string_view data, std::string_view css, std::string_view tip) {
  if (data.empty()) return;
  Element("path", fmt::format(R"(d="{}")", data), css, tip);
}

std::string Svg::Finish() && {
  return std::move(text_) + "</svg>\n";
}

// ---- curves ----

std::vector<XY> Thin(std::span<const XY> curve, std::size_t most) {
  if (curve.size() <= most) return {curve.begin(), curve.end()};
  const std::size_t kept_per_bucket = 4;
  const std::size_t buckets = std::max<std::size_t>(1, most / kept_per_bucket);
  const double low = curve.front().x;
  const double width = (curve.back().x - low) / static_cast<double>(buckets);
  std::vector<XY> kept;
  std::size_t i = 0;
  for (std::size_t bucket = 0; bucket < buckets && i < curve.size(); ++bucket) {
    const bool last_bucket = bucket + 1 == buckets;
    const double end = low + width * static_cast<double>(bucket + 1);
    const std::size_t first = i;
    std::size_t lowest = first, highest = first;
    while (i < curve.size() && (last_bucket || curve[i].x < end)) {
      // A gap counts as the lowest value, so that a thinned-out curve keeps the gap.
      const bool hole = std::isnan(curve[i].y);
      if (hole || curve[i].y < curve[lowest].y) lowest = i;
      if (!hole && !(curve[i].y <= curve[highest].y)) highest = i;
      ++i;
    }
    if (i == first) continue;
    std::array<std::size_t, 4> chosen{first, lowest, highest, i - 1};
    std::ranges::sort(chosen);
    const auto end_chosen = std::unique(chosen.begin(), chosen.end());
    for (auto each = chosen.begin(); each != end_chosen; ++each) kept.push_back(curve[*each]);
  }
  return kept;
}

double Scale::operator()(double value) const {
  if (!(high > low) || !std::isfinite(value)) return from;
  return from + (value - low) / (high - low) * (to - from);
}

std::string StepPath(std::span<const XY> curve, double end_x, const Scale& x, const Scale& y) {
  return Steps(curve, end_x, x, y, false);
}

std::string StepArea(std::span<const XY> curve, double end_x, const Scale& x, const Scale& y) {
  return Steps(curve, end_x, x, y, true);
}

// ---- axes ----

std::vector<Tick> NiceTicks(double high, int most) {
  if (!Drawable(high)) return {{0, "0"}};
  const double step = NiceStep(high, most);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  std::vector<Tick> ticks;
  for (int i = 0; i * step <= high * (1 + 1e-9); ++i) {
    ticks.push_back({i * step, i == 0 ? "0"
                               : step >= 1e6 || decimals > 4
                                   ? fmt::format("{:.1e}", i * step)
                                   : fmt::format("{:.{}f}", i * step, decimals)});
  }
  return ticks;
}

std::vector<Tick> TimeTicks(double high_s, int most) {
  struct Unit {
    double s;
    const char* name;
  };
  constexpr Unit kUnits[] = {{86'400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
  constexpr double kSteps[] = {1,      2,      5,       10,      30,       60,   120,
                               300,    600,    1200,    1800,    3600,     7200, 10'800,
                               21'600, 86'400, 172'800, 604'800, 1'209'600};
  if (!Drawable(high_s)) return {{0, "0"}};
  const double step = TimeStep(kSteps, high_s, most);
  const auto* const unit = std::ranges::find_if(kUnits, [&](const Unit& u) { return step >= u.s; });
  std::vector<Tick> ticks;
  for (int i = 0; i * step <= high_s * (1 + 1e-9); ++i) {
    const double at = i * step;
    ticks.push_back({at, i == 0 ? "0" : fmt::format("{:g} {}", at / unit->s, unit->name)});
  }
  return ticks;
}

std::vector<Tick> ClockTicks(double from_s, double length_s, int most) {
  constexpr double kDayS = 86'400;
  constexpr double kSteps[] = {1,      2,      5,     10,        30,        60,         120,
                               300,    600,    1'200, 1'800,     3'600,     7'200,      10'800,
                               21'600, 43'200, kDayS, 2 * kDayS, 7 * kDayS, 14 * kDayS, 28 * kDayS};
  if (!Drawable(length_s) || !std::isfinite(from_s)) return {};
  const double step = TimeStep(kSteps, length_s, most);
  std::vector<Tick> ticks;
  for (double at = std::ceil(from_s / step) * step; at <= from_s + length_s; at += step) {
    const auto moment = std::chrono::sys_seconds(std::chrono::seconds(std::llround(at)));
    const auto day = std::chrono::floor<std::chrono::days>(moment);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss time(moment - day);
    const std::string text =
        moment == day ? fmt::format("{} {}", static_cast<unsigned>(date.day()),
                                    kMonths[static_cast<unsigned>(date.month()) - 1])
                      : fmt::format("{:02}:{:02}", time.hours().count(), time.minutes().count());
    ticks.push_back({at - from_s, step < 60 && moment != day
                                      ? fmt::format("{}:{:02}", text, time.seconds().count())
                                      : text});
  }
  return ticks;
}

double NiceEnd(double high) {
  if (!Drawable(high)) return 1;
  const double step = NiceStep(high, 10);
  return std::ceil(high / step - 1e-9) * step;
}

}  // namespace carma::report
