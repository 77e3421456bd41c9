#include "cli/client/gpu_history_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>

#include "base/csv.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/bars.h"

namespace carma::cli {
namespace {

using Point = api::GpuHistoryView::Point;
using Value = std::function<std::optional<double>(const Point&)>;

// One character per span of time, and a blank where nothing is known.
std::string Drawn(const api::GpuHistoryView& gpu, const HistorySpan& span,
                  const std::function<std::string(const Point&)>& draw) {
  std::vector<std::string> cells(static_cast<std::size_t>(span.points), " ");
  for (const Point& point : gpu.points) {
    const std::int64_t i =
        (point.from_ms - span.from_ms) / std::max<std::int64_t>(1, span.WidthMs());
    if (i >= 0 && i < span.points) cells[static_cast<std::size_t>(i)] = draw(point);
  }
  return base::Join(cells, "");
}

struct Extremes {
  double sum = 0, ms = 0, highest = 0;
  std::optional<double> Mean() const { return ms > 0 ? std::optional(sum / ms) : std::nullopt; }
};

Extremes Measure(const api::GpuHistoryView& gpu, const Value& value) {
  Extremes of;
  for (const Point& point : gpu.points) {
    const std::optional<double> known = value(point);
    if (!known) continue;
    const auto ms = static_cast<double>(std::max<std::int64_t>(1, point.to_ms - point.from_ms));
    of.sum += *known * ms;
    of.ms += ms;
    of.highest = std::max(of.highest, *known);
  }
  return of;
}

std::string HistoryLine(std::string_view label, const std::string& cells,
                        const std::string& value) {
  std::string line = fmt::format("  {:<10}{} {}", label, cells, value);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// Empty if no point has the value.
std::string BarLine(std::string_view label, const api::GpuHistoryView& gpu, const HistorySpan& span,
                    const Value& value, double full,
                    const std::function<std::string(const Extremes&)>& summary) {
  const Extremes of = Measure(gpu, value);
  if (of.ms == 0) return "";
  const double scale = full > 0 ? full : of.highest;
  const std::string cells = Drawn(gpu, span, [&](const Point& point) {
    const std::optional<double> known = value(point);
    return std::string(SmallBar(known && scale > 0 ? std::optional(*known / scale) : known));
  });
  return HistoryLine(label, cells, summary(of));
}

std::string MeanPercent(const Extremes& of) {
  return fmt::format("{:.0f}%", of.Mean().value_or(0) * 100);
}

std::string TaskDigit(const Point& point) {
  return point.tasks > 9 ? "+" : std::to_string(point.tasks);
}

std::string OptionalCell(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : "";
}

}  // namespace

std::string HistoryTitle(const HistorySpan& span) {
  return "From " + base::FormatTime(base::FromMs(span.from_ms)) + " to " +
         base::FormatTime(base::FromMs(span.to_ms)) + ", " +
         base::FormatSpan(base::Duration(span.WidthMs())) + " a character\n";
}

std::string HistoryBars(const api::GpuHistoryView& gpu, std::int64_t total_mib,
                        const HistorySpan& span) {
  std::string out = "GPU " + std::to_string(gpu.index) + " " + base::Printable(gpu.name, 60) + "\n";
  if (gpu.points.empty()) return out + "  no data for this time\n";
  out += BarLine(
      "SM mean", gpu, span, [](const Point& p) { return p.sm_active; }, 1, &MeanPercent);
  out += BarLine(
      "SM peak", gpu, span, [](const Point& p) { return p.sm_peak; }, 1,
      [](const Extremes& of) { return fmt::format("{:.0f}%", of.highest * 100); });
  out += BarLine(
      "DRAM mean", gpu, span, [](const Point& p) { return p.dram_active; }, 1, &MeanPercent);
  out += BarLine(
      "Mem peak", gpu, span,
      [](const Point& p) { return std::optional(p.used_peak_mib.value_or(p.used_mib)); },
      static_cast<double>(total_mib),
      [](const Extremes& of) { return base::FormatMib(std::llround(of.highest)); });
  out += BarLine(
      "Power", gpu, span, [](const Point& p) { return p.power_w; }, 0,
      [](const Extremes& of) { return fmt::format("{:.0f}W", of.Mean().value_or(0)); });
  return out + HistoryLine("Tasks", Drawn(gpu, span, &TaskDigit), "");
}

std::string HistoryCsv(const std::vector<api::GpuHistoryView>& gpus) {
  std::string out =
      "gpu,uuid,from_ms,to_ms,sm_active,sm_peak,dram_active,used_mib,used_peak_mib,power_w,tasks\n";
  for (const api::GpuHistoryView& gpu : gpus) {
    for (const Point& point : gpu.points) {
      out +=
          fmt::format("{},{},{},{},{},{},{},{:.6g},{},{},{}\n", gpu.index, base::CsvCell(gpu.uuid),
                      point.from_ms, point.to_ms, OptionalCell(point.sm_active),
                      OptionalCell(point.sm_peak), OptionalCell(point.dram_active), point.used_mib,
                      OptionalCell(point.used_peak_mib), OptionalCell(point.power_w), point.tasks);
    }
  }
  return out;
}

}  // namespace carma::cli
