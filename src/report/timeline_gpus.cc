// Draws the charts that show GPUs over time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "report/lines.h"
#include "report/timeline.h"
#include "report/timeline_parts.h"

namespace carma::report {

using base::Seconds;

namespace {

struct QuantityLook {
  double GpuPoint::*column;
  std::string_view what;
  double factor;  // converts to the unit of the axis
  std::string_view unit;
  double end;  // of the axis
};

QuantityLook LookOf(Quantity quantity, const TimelineFrame& frame) {
  switch (quantity) {
    case Quantity::kMemory:
      return {&GpuPoint::used_mib, "Memory in use over time", 1.0 / 1024, " GiB",
              frame.memory_end_mib / 1024};
    case Quantity::kSmActive:
      return {&GpuPoint::sm_active, "SM activity over time", 100, " %", 100};
    case Quantity::kPower:
      return {&GpuPoint::power_w, "Power over time", 1, " W", frame.power_end_w};
  }
  return {};
}

std::vector<XY> CurveOf(const RunRecord& run, const RunGpu& gpu, const QuantityLook& look) {
  std::vector<XY> curve;
  curve.reserve(gpu.points.size());
  for (const GpuPoint& point : gpu.points)
    curve.push_back({Since(run, point.at), point.*look.column * look.factor});
  return curve;
}

bool AnyValue(const std::vector<XY>& curve) {
  return std::ranges::any_of(curve, [](const XY& p) { return std::isfinite(p.y); });
}

std::string Strips(const RunRecord& run, Quantity quantity, const TimelineFrame& frame) {
  const QuantityLook look = LookOf(quantity, frame);
  constexpr double kGap = 6;
  const double strip = run.gpus.size() > 4 ? 32 : 44;
  const double bottom = kTop + static_cast<double>(run.gpus.size()) * (strip + kGap);
  Svg svg(frame.width, bottom + kAxis, look.what);
  DrawTimeAxis(svg, frame, kTop, bottom);
  const Scale x = TimeScale(frame);
  for (std::size_t i = 0; i < run.gpus.size(); ++i) {
    const double top = kTop + static_cast<double>(i) * (strip + kGap);
    const Scale y{.low = 0, .high = look.end, .from = top + strip, .to = top};
    svg.Text(kLeft - 6, top + strip / 2 + 4, base::Printable(run.gpus[i].name, 11), "label end");
    const std::vector<XY> curve = Thin(CurveOf(run, run.gpus[i], look), kMostPoints);
    const double end_s = Since(run, run.to);
    svg.Path(StepArea(curve, end_s, x, y), "area");
    DrawValueAxis(svg, y, frame, look.unit);
    svg.Path(StepPath(curve, end_s, x, y), "curve");
    if (quantity != Quantity::kMemory) continue;
    const std::vector<XY> promised = Thin(PromisedCurve(run, static_cast<int>(i)), kMostPoints);
    svg.Path(StepPath(promised, end_s, x, y), "promise");
  }
  return std::move(svg).Finish();
}

// Divides the curve into `spans` spans of `span_s` seconds and returns the mean of each. The mean
// of a span without known values is NaN.
std::vector<double> Resample(const std::vector<XY>& curve, double end_s, double span_s,
                             std::size_t spans) {
  std::vector<double> sum(spans, 0.0), known_s(spans, 0.0);
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double to = std::min(end_s, i + 1 < curve.size() ? curve[i + 1].x : end_s);
    double from = std::max(0.0, curve[i].x);
    if (!std::isfinite(curve[i].y) || from >= to) continue;
    auto span = static_cast<std::size_t>(from / span_s);
    for (; span < spans && from < to; ++span) {
      const double until = std::min(to, static_cast<double>(span + 1) * span_s);
      sum[span] += curve[i].y * (until - from);
      known_s[span] += until - from;
      from = until;
    }
  }
  for (std::size_t i = 0; i < spans; ++i) sum[i] = known_s[i] > 0 ? sum[i] / known_s[i] : kUnknown;
  return sum;
}

// Draws the range from the lowest to the highest GPU, and the mean.
std::string Envelope(const RunRecord& run, Quantity quantity, const TimelineFrame& frame) {
  const QuantityLook look = LookOf(quantity, frame);
  constexpr std::size_t kSpans = 400;
  constexpr double kHeight = 120;
  const double end_s = Since(run, run.to);
  const double span_s = std::max(1e-9, end_s / kSpans);
  std::vector<double> low(kSpans, kUnknown), high(kSpans, kUnknown), sum(kSpans, 0),
      gpus(kSpans, 0);
  for (const RunGpu& gpu : run.gpus) {
    const std::vector<double> means = Resample(CurveOf(run, gpu, look), end_s, span_s, kSpans);
    for (std::size_t i = 0; i < kSpans; ++i) {
      if (!std::isfinite(means[i])) continue;
      low[i] = std::fmin(low[i], means[i]);
      high[i] = std::fmax(high[i], means[i]);
      sum[i] += means[i];
      ++gpus[i];
    }
  }
  Svg svg(frame.width, kTop + kHeight + kAxis, look.what);
  DrawTimeAxis(svg, frame, kTop, kTop + kHeight);
  const Scale x = TimeScale(frame);
  const Scale y{.low = 0, .high = look.end, .from = kTop + kHeight, .to = kTop};
  std::string band;
  std::vector<XY> mean;
  for (std::size_t i = 0; i < kSpans; ++i) {
    const double from = static_cast<double>(i) * span_s;
    mean.push_back({from, gpus[i] > 0 ? sum[i] / gpus[i] : kUnknown});
    if (gpus[i] == 0) continue;
    const double width = x(from + span_s) - x(from);
    band += fmt::format("M{} {}h{}V{}h-{}z", Coordinate(x(from)), Coordinate(y(high[i])),
                        Coordinate(width), Coordinate(y(low[i])), Coordinate(width));
  }
  svg.Path(band, "range");
  DrawValueAxis(svg, y, frame, look.unit);
  svg.Path(StepPath(mean, end_s, x, y), "curve");
  if (quantity == Quantity::kMemory) {
    std::vector<XY> promised = Thin(PromisedCurve(run, std::nullopt), kMostPoints);
    for (XY& point : promised) point.y /= static_cast<double>(run.gpus.size());
    svg.Path(StepPath(promised, end_s, x, y), "promise");
  }
  svg.Text(kLeft - 6, kTop + kHeight / 2 + 4, base::Counted(std::ssize(run.gpus), "GPU"),
           "label end");
  return std::move(svg).Finish();
}

}  // namespace

std::vector<XY> PromisedCurve(const RunRecord& run, std::optional<int> gpu) {
  std::map<core::Time, double> changes;
  for (const RunTask& task : run.tasks) {
    for (const Attempt& attempt : task.attempts) {
      const auto gpus = gpu ? std::ranges::count(attempt.gpus, *gpu)
                            : static_cast<std::ptrdiff_t>(attempt.gpus.size());
      const double gib = attempt.promised_mib.value_or(0) / 1024 * static_cast<double>(gpus);
      if (gib <= 0) continue;
      changes[attempt.started] += gib;
      changes[attempt.ended] -= gib;
    }
  }
  std::vector<XY> curve;
  double promised = 0;
  for (const auto& [when, change] : changes) {
    promised += change;
    constexpr double kNothing = 1e-6;  // rounding error of sums that cancel out
    curve.push_back({std::max(0.0, Since(run, when)), promised > kNothing ? promised : kUnknown});
  }
  return curve;
}

void DrawValueAxis(Svg& svg, const Scale& y, const TimelineFrame& frame, std::string_view unit) {
  for (const Tick& tick : NiceTicks(y.high, 2)) {
    svg.Line(kLeft, y(tick.at), frame.width - kRight, y(tick.at), "rule");
    if (tick.at == 0) continue;  // the base line marks 0; a label would overlap the next strip
    svg.Text(frame.width - kRight + 5, y(tick.at) + 3.5, tick.text + std::string(unit), "tick");
  }
}

std::string GpuChart(const RunRecord& run, Quantity quantity, const TimelineFrame& frame) {
  const QuantityLook look = LookOf(quantity, frame);
  const bool reported = std::ranges::any_of(
      run.gpus, [&](const RunGpu& gpu) { return AnyValue(CurveOf(run, gpu, look)); });
  if (!reported) return Note(frame, "Not reported.");
  return run.gpus.size() <= kStripGpus ? Strips(run, quantity, frame)
                                       : Envelope(run, quantity, frame);
}

}  // namespace carma::report
