#include "cli/client/gpu_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "api/gpu_standing.h"
#include "base/csv.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/bars.h"
#include "cli/client/task_words.h"
#include "cli/table.h"

namespace carma::cli {
namespace {

using api::GpuView;

Colour StateColour(const GpuView& gpu) {
  if (IsDown(gpu)) return Colour::kBad;
  if (IsClosed(gpu)) return Colour::kWaiting;
  return api::StandingOf(gpu) == api::GpuStanding::kIdle ? Colour::kFaint : Colour::kGood;
}

// The tasks and foreign processes on the GPU: "42 ann, 43 bob (idle), 1 foreign (8.0G)".
std::string TasksText(const GpuView& gpu) {
  std::vector<std::string> pieces;
  for (const api::GpuTaskView& task : gpu.tasks) {
    pieces.push_back(std::to_string(task.id) + " " + base::Printable(task.user, 32) +
                     (task.idle_since_ms ? " (idle)" : ""));
  }
  if (gpu.foreign_processes > 0) {
    pieces.push_back(
        fmt::format("{} foreign ({})", gpu.foreign_processes, base::FormatMib(gpu.foreign_mib)));
  }
  std::string text = base::Join(pieces, ", ");
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "  ") + more; };
  if (const std::string trouble = TroubleText(gpu); !trouble.empty()) add("(" + trouble + ")");
  if (const std::string reserved = ReservedText(gpu.reserved); !reserved.empty())
    add("(" + reserved + ")");
  for (const std::string& alert : gpu.alerts) add("! " + base::Printable(alert));
  return text.empty() ? "-" : text;
}

// The name without "NVIDIA", because all GPUs are made by NVIDIA.
std::string ShortName(const GpuView& gpu) {
  constexpr std::string_view kMaker = "NVIDIA ";
  const std::string name = GpuName(gpu);
  return name.starts_with(kMaker) ? name.substr(kMaker.size()) : name;
}

std::string CheckedDemand(const CheckedTask& task) {
  if (task.gpus == 0) return "no GPU";
  const std::string gpus = base::Counted(task.gpus, "GPU");
  if (!task.predicted_mib) return gpus + ", no memory estimate";
  return gpus + ", " + base::FormatMib(*task.predicted_mib) + " predicted (" +
         base::Printable(task.estimate_method, 40) + ")";
}

// The text for a task that could start now. Each task of a dry run is checked on its own, as if the
// other tasks did not exist.
std::string CheckedNow(std::size_t alike, bool first) {
  if (alike > 1 && first)
    return ": the first could start now, and the others as soon as there is room";
  if (alike > 1) return ": each could start now on its own";
  return first ? ": could start now" : ": could start now if the tasks above were not ahead of it";
}

// alike: number of identical tasks on this line. first: true for the first line.
std::string CheckLine(const CheckedTask& task, std::size_t alike, bool first) {
  std::string line = "  " + base::Printable(task.name, 60);
  if (alike > 1) line += fmt::format(" x{}", alike);
  line += ": " + CheckedDemand(task);
  line += task.now ? CheckedNow(alike, first) : ": would wait";
  if (!task.now && !task.reason.empty()) line += " (" + base::Printable(task.reason, 40) + ")";
  if (!task.now && !task.reason_text.empty())
    line += ": " + base::Printable(base::LocalTimes(task.reason_text), 400);
  line += "\n";
  const std::string start = StartSentences(task.latest_start_ms, task.likely_start_ms, task.now_ms);
  for (const std::string_view sentence : base::Split(start, '\n')) {
    if (!sentence.empty()) line += "    " + std::string(sentence) + "\n";
  }
  for (const std::string& remark : task.estimate_remarks)
    line += "    " + base::Printable(remark, 400) + "\n";
  return line;
}

using Point = api::GpuHistoryView::Point;
using Value = std::function<std::optional<double>(const Point&)>;

// Draws one character per time span, and a blank where the value is unknown.
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

// A line of small bars; empty if no point has the value.
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
  return Percent(of.Mean().value_or(0));
}

std::string TaskDigit(const Point& point) {
  return point.tasks > 9 ? "+" : std::to_string(point.tasks);
}

constexpr int kWideScreen = 100;

// The bar "[||||::    ]": first the used memory, then the promised memory that is not in use.
std::string BarText(const GpuView& gpu) {
  const MemoryBarParts parts = PartsOfMemory(gpu.used_mib, gpu.promised_mib, gpu.total_mib, 10);
  return "[" + std::string(parts.used, '|') + std::string(parts.promised, ':') +
         std::string(parts.free, ' ') + "]";
}

std::string OptionalCell(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : "";
}

}  // namespace

std::string Percent(const std::optional<double>& fraction) {
  return fraction ? fmt::format("{:.0f}%", *fraction * 100) : "-";
}

std::string GpuName(const GpuView& gpu) {
  const std::string name = base::Printable(gpu.name, 60);
  // Does not repeat the profile, which most drivers include in the name.
  const bool told = name.find(gpu.mig_profile) != std::string::npos;
  return told ? name : name + " MIG " + base::Printable(gpu.mig_profile, 40);
}

std::string TroubleText(const GpuView& gpu) {
  const std::string why = base::Printable(base::LocalTimes(gpu.trouble));
  if (!gpu.drained_by_rule) return why;
  return why.empty() ? "by rule" : "by rule: " + why;
}

bool IsDown(const GpuView& gpu) {
  return api::StandingOf(gpu) == api::GpuStanding::kDown;
}

bool IsClosed(const GpuView& gpu) {
  const std::optional<api::GpuStanding> standing = api::StandingOf(gpu);
  return standing == api::GpuStanding::kDown || standing == api::GpuStanding::kDrained ||
         standing == api::GpuStanding::kDraining;
}

std::int64_t CountOf(const api::StatusView& status,
                     std::initializer_list<std::string_view> states) {
  std::int64_t sum = 0;
  for (const auto& [state, count] : status.task_counts) {
    if (std::ranges::find(states, state) != states.end()) sum += count;
  }
  return sum;
}

std::int64_t RunningTasks(const api::StatusView& status) {
  return CountOf(status, {"launching", "running", "stopping"});
}

std::string PromisedText(std::int64_t promised_mib, std::int64_t claimed_mib) {
  std::string text = base::FormatMib(promised_mib) + " promised";
  if (claimed_mib > promised_mib) text += " of " + base::FormatMib(claimed_mib) + " claimed";
  return text;
}

std::string ReservedText(const std::vector<GpuView::Reserved>& reserved) {
  if (reserved.empty()) return "";
  const GpuView::Reserved& first = reserved.front();
  const std::string whom = "reserved for " + base::Printable(first.whom, 60);
  return first.holds ? whom + " until " + Minute(first.to_ms)
                     : whom + " from " + Minute(first.from_ms);
}

std::string GpuTable(const std::vector<GpuView>& gpus, const Screen& screen) {
  // On a screen, the name of identical GPUs is shown only once, above the table. Output for
  // programs always has all columns.
  const bool alike =
      screen.width > 0 && gpus.size() > 1 && std::ranges::all_of(gpus, [&](const auto& gpu) {
        return ShortName(gpu) == ShortName(gpus[0]) && gpu.total_mib == gpus[0].total_mib;
      });
  std::vector<Column> columns{{"GPU", true},      {"STATE"},      {"USED/TOTAL", true},
                              {"PROMISED", true}, {"FREE", true}, {"SM", true},
                              {"POWER", true},    {"TEMP", true}, {"TASKS", false, 12}};
  const bool bars = screen.width >= kWideScreen;
  if (bars) columns.insert(columns.begin() + 5, {"MEMORY"});
  if (!alike) columns.insert(columns.begin() + 1, {"NAME", false, 8});
  Table table(std::move(columns));
  for (GpuView gpu : gpus) {
    const bool full = IsClosed(gpu) || api::StandingOf(gpu) == api::GpuStanding::kHeld;
    // A drained GPU is not sampled, so its last values may date from a task that has ended.
    const bool unread = api::StandingOf(gpu) == api::GpuStanding::kDrained;
    if (unread) gpu.power_w = gpu.temperature_c = gpu.sm_active = std::nullopt;
    std::vector<Cell> row{
        {std::to_string(gpu.index)},
        {base::Printable(gpu.state, 20), StateColour(gpu)},
        {(unread ? "-" : base::FormatMib(gpu.used_mib)) + "/" + base::FormatMib(gpu.total_mib)},
        {base::FormatMib(gpu.promised_mib)},
        {full ? "-" : base::FormatMib(gpu.free_mib)},
        {Percent(gpu.sm_active)},
        {gpu.power_w ? fmt::format("{:.0f}W", *gpu.power_w) : "-"},
        {gpu.temperature_c ? fmt::format("{:.0f}C", *gpu.temperature_c) : "-"},
        {TasksText(gpu)}};
    if (bars) row.insert(row.begin() + 5, Cell{BarText(gpu)});
    if (!alike) row.insert(row.begin() + 1, Cell{ShortName(gpu)});
    table.Add(std::move(row));
  }
  const std::string title = alike ? fmt::format("{} x {}\n", gpus.size(), ShortName(gpus[0])) : "";
  return title + table.Text(screen);
}

std::string StatusText(const api::StatusView& status) {
  std::vector<std::string> counts;
  for (const auto& [state, count] : status.task_counts) {
    if (count > 0) counts.push_back(std::to_string(count) + " " + base::Printable(state, 40));
  }
  std::string out =
      fmt::format("carmad {}, process {}, {}\n", base::Printable(status.version, 40), status.pid,
                  status.uid == 0 ? "run by root" : fmt::format("serves user {}", status.uid));
  out += "  Driver   " + base::Printable(status.driver, 400) + "\n";
  out += "  Rules    " + base::Printable(status.policy, 400) + "\n";
  out += "  Sharing  " + base::Printable(status.collocation, 400) + "\n";
  if (status.host.cpus > 0 || status.host.memory_mib > 0) {
    const api::HostView& host = status.host;
    out += fmt::format("  Server   {} of {} and {} of {} of memory free; enforced: {}\n",
                       host.free_cpus, base::Counted(host.cpus, "CPU"),
                       base::FormatMib(host.free_memory_mib), base::FormatMib(host.memory_mib),
                       host.enforced.empty() ? "nothing" : base::Printable(host.enforced, 100));
  }
  out += "  Tasks    " + (counts.empty() ? "none" : base::Join(counts, ", ")) + "\n";
  out += "  Clock    " + base::FormatTime(base::FromMs(status.now_ms));
  if (status.time_scale != 1)
    out += fmt::format(", simulated at {:.6g} times real time", status.time_scale);
  out += "\n";
  if (status.config_read_ms > 0) {
    out += "  Config   read " + base::FormatTime(base::FromMs(status.config_read_ms));
    if (!status.config_needs_restart.empty()) {
      out += "; needs a restart: " +
             base::Printable(base::Join(status.config_needs_restart, ", "), 2'000);
    }
    out += "\n";
  }
  for (const std::string& trouble : status.troubles)
    out += "  Trouble  " + base::Printable(trouble, 400) + "\n";
  return out;
}

std::string CheckText(const std::vector<CheckedTask>& tasks, std::size_t count) {
  std::string out = fmt::format("Nothing was submitted; {} valid:\n",
                                count == 1 ? "the task is" : std::to_string(count) + " tasks are");
  for (std::size_t i = 0, alike = 0; i < tasks.size(); i += alike) {
    alike = 1;
    while (i + alike < tasks.size() && tasks[i + alike] == tasks[i]) ++alike;
    out += CheckLine(tasks[i], alike, i == 0);
  }
  if (count > tasks.size()) out += fmt::format("  and {} more\n", count - tasks.size());
  return out;
}

std::string HistoryTitle(const HistorySpan& span) {
  return "From " + base::FormatTime(base::FromMs(span.from_ms)) + " to " +
         base::FormatTime(base::FromMs(span.to_ms)) + ", " +
         base::FormatSpan(base::Duration(span.WidthMs())) + " per character\n";
}

std::string HistoryBars(const api::GpuHistoryView& gpu, std::int64_t total_mib,
                        const HistorySpan& span) {
  std::string out = "GPU " + std::to_string(gpu.index) + " " + base::Printable(gpu.name, 60) + "\n";
  if (gpu.points.empty()) return out + "  no data for this period\n";
  out += BarLine(
      "SM mean", gpu, span, [](const Point& p) { return p.sm_active; }, 1, &MeanPercent);
  out += BarLine(
      "SM peak", gpu, span, [](const Point& p) { return p.sm_peak; }, 1,
      [](const Extremes& of) { return Percent(of.highest); });
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
