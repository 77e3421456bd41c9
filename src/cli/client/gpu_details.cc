#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/client/gpu_text.h"
#include "cli/client/task_words.h"
#include "cli/table.h"
#include "gpu/counters.h"

namespace carma::cli {
namespace {

using api::GpuView;

constexpr std::size_t kUsualWidth = 80;
constexpr std::size_t kTableIndent = 4;

// A rate with its unit: 1536 B/s, 1.5 KiB/s …
std::string RateText(double bytes_s) {
  constexpr std::array<const char*, 5> kUnits{"B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"};
  std::size_t unit = 0;
  for (; bytes_s >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes_s /= 1024;
  return fmt::format("{:.{}f} {}", bytes_s, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string EnergyText(double joules) {
  if (joules < 1e4) return fmt::format("{:.0f} J", joules);
  return joules < 1e7 ? fmt::format("{:.0f} kJ", joules / 1e3)
                      : fmt::format("{:.0f} MJ", joules / 1e6);
}

// The value with the unit from the metric's name: energy_j, sm_clock_mhz.
std::string ValueText(const GpuView::Metric& metric) {
  for (const gpu::Counter& counter : gpu::Counters()) {
    if (counter.name != metric.name) continue;
    return counter.unit == gpu::CounterUnit::kFraction ? Percent(metric.value)
                                                       : RateText(metric.value);
  }
  const std::string_view name = metric.name;
  if (name == "utilization") return Percent(metric.value);
  if (name.ends_with("_bytes_s")) return RateText(metric.value);
  if (name.ends_with("_j")) return EnergyText(metric.value);
  constexpr std::pair<std::string_view, const char*> kUnits[] = {
      {"_mhz", " MHz"}, {"_w", " W"}, {"_c", " C"}};
  for (const auto& [end, unit] : kUnits) {
    if (name.ends_with(end)) return fmt::format("{:.0f}{}", metric.value, unit);
  }
  return fmt::format("{:g}", metric.value);
}

// Joins the words with ", " and wraps the text at `width` characters.
std::vector<std::string> Wrapped(const std::vector<std::string>& words, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    if (!lines.empty() && ShownWidth(lines.back()) + 2 + ShownWidth(word) <= width) {
      lines.back() += ", " + word;
    } else {
      if (!lines.empty()) lines.back() += ",";
      lines.push_back(word);
    }
  }
  return lines;
}

std::vector<std::string> SourcesOf(const GpuView& gpu) {
  std::vector<std::string> sources;
  for (const GpuView::Metric& metric : gpu.metrics) {
    if (std::ranges::find(sources, metric.source) == sources.end())
      sources.push_back(metric.source);
  }
  return sources;
}

// Adds the values from the last reading, grouped by source.
void AddMetrics(const GpuView& gpu, std::size_t width, Facts& facts) {
  for (const std::string& source : SourcesOf(gpu)) {
    std::vector<std::string> words;
    for (const GpuView::Metric& metric : gpu.metrics) {
      if (metric.source != source) continue;
      words.push_back(base::Printable(metric.name, 40) + " " + ValueText(metric));
    }
    std::string label = "From " + base::Printable(source, 8);
    for (const std::string& line : Wrapped(words, width)) {
      facts.Add(label, line);
      label.clear();
    }
  }
}

std::string ActivityText(const GpuView& gpu) {
  const bool told = gpu.sm_active || gpu.sm_active_now;
  const bool nobody = gpu.activity_source == base::WordOf(gpu::CounterSource::kNone);
  if (!told) return nobody ? "not reported" : "";
  std::string text = fmt::format("{} mean over the window, {} p95, {} EWMA, {} now",
                                 Percent(gpu.sm_active), Percent(gpu.sm_active_p95),
                                 Percent(gpu.sm_active_ewma), Percent(gpu.sm_active_now));
  if (!gpu.activity_source.empty()) text += " (" + base::Printable(gpu.activity_source, 20) + ")";
  return text;
}

std::string MemoryText(const GpuView& gpu) {
  return fmt::format("{} of {} in use, {}, {}", base::FormatMib(gpu.used_mib),
                     base::FormatMib(gpu.total_mib),
                     PromisedText(gpu.promised_mib, gpu.claimed_mib),
                     IsClosed(gpu) ? "closed to new tasks"
                                   : base::FormatMib(gpu.free_mib) + " free for a new task");
}

std::string Indented(const std::string& text) {
  std::string out;
  for (std::string_view line : base::Split(text, '\n')) {
    if (!line.empty()) out += std::string(kTableIndent, ' ').append(line) + "\n";
  }
  return out;
}

Screen Inside(const Screen& screen) {
  const int indent = static_cast<int>(kTableIndent);
  return {.width = screen.width > indent ? screen.width - indent : 0, .colour = screen.colour};
}

std::string ShareText(const api::GpuTaskView& task) {
  if (!task.sm_active) return "-";
  return Percent(*task.sm_active) + " " + base::Printable(task.sm_active_by, 20);
}

std::string TaskLines(const GpuView& gpu, std::int64_t now_ms, const Screen& screen) {
  Table table({{"TASK", true},
               {"USER", false, 6},
               {"NAME", false, 8},
               {"CLAIM", true},
               {"PROMISED", true},
               {"USED", true},
               {"PEAK", true},
               {"SHARING"},
               {"SM"}});
  std::string idle;
  for (const api::GpuTaskView& task : gpu.tasks) {
    table.Add({{std::to_string(task.id)},
               {base::Printable(task.user, 32)},
               {base::Printable(task.name, 60)},
               {task.claim_mib > 0 ? base::FormatMib(task.claim_mib) : "-"},
               {task.promised_mib > 0 ? base::FormatMib(task.promised_mib) : "-"},
               {base::FormatMib(task.observed_mib)},
               {base::FormatMib(task.peak_mib)},
               {task.sharing.empty() ? "-" : base::Printable(task.sharing, 20)},
               {ShareText(task)}});
    if (!task.idle_since_ms) continue;
    const base::Duration span(std::max<std::int64_t>(0, now_ms - *task.idle_since_ms));
    idle += fmt::format("task {} has not used its GPUs for {}\n", task.id, base::FormatSpan(span));
  }
  return Indented(table.Text(Inside(screen)) + idle);
}

std::string ForeignLines(const GpuView& gpu, const Screen& screen) {
  Table table({{"PID", true}, {"USER", false, 6}, {"USED", true}, {"COMMAND", false, 10}});
  for (const api::ForeignView& process : gpu.foreign) {
    table.Add({{std::to_string(process.pid)},
               {process.user.empty() ? "?" : base::Printable(process.user, 32)},
               {process.used_mib ? base::FormatMib(*process.used_mib) : "?"},
               {process.command.empty() ? "hidden" : base::Printable(process.command)}});
  }
  return Indented(table.Text(Inside(screen)));
}

}  // namespace

std::string GpuDetails(const GpuView& gpu, std::int64_t now_ms, const Screen& screen) {
  Facts facts;
  const std::size_t width = screen.width > 0 ? static_cast<std::size_t>(screen.width) : kUsualWidth;
  facts.Add("UUID", base::Printable(gpu.uuid, 80));
  if (!gpu.mig_profile.empty() || !gpu.mig_parent.empty()) {
    facts.Add("MIG instance",
              base::Printable(gpu.mig_profile, 40) + " of " + base::Printable(gpu.mig_parent, 80));
  }
  if (gpu.pace < 1)
    facts.Add("Speed", fmt::format("{:.2g} times the speed of the server's fastest GPU", gpu.pace));
  facts.Add(IsDown(gpu) ? "Trouble" : "Closed", TroubleText(gpu));
  for (const std::string& alert : gpu.alerts) facts.Add("Alert", base::Printable(alert, 400));
  for (const GpuView::Reserved& each : gpu.reserved) {
    facts.Add("Reserved",
              fmt::format("for {} from {} to {} (reservation {}{})",
                          base::Printable(each.whom, 200), Minute(each.from_ms), Minute(each.to_ms),
                          each.id, each.why.empty() ? "" : ": " + base::Printable(each.why)));
  }
  if (!gpu.linked_to.empty())
    facts.Add("NVLink", fmt::format("to GPU {}", fmt::join(gpu.linked_to, ", ")));
  facts.Add("Memory", MemoryText(gpu));
  if (gpu.reserved_mib > 0)
    facts.Add("", base::FormatMib(gpu.reserved_mib) + " reserved by the driver");
  if (gpu.unattributed_mib)
    facts.Add("", base::FormatMib(*gpu.unattributed_mib) + " used by unlisted processes");
  facts.Add("SM activity", ActivityText(gpu));
  facts.Add("Rule", base::Printable(gpu.activity_rule, 400));
  AddMetrics(gpu, width > kFactsIndent + 20 ? width - kFactsIndent : 20, facts);
  if (gpu.sample_age_ms)
    facts.Add("Read", fmt::format("{:.1f} s ago{}", static_cast<double>(*gpu.sample_age_ms) / 1000,
                                  gpu.state == "drain" ? "; drained GPUs are not sampled" : ""));
  std::string out = "GPU " + std::to_string(gpu.index) + " " + GpuName(gpu) + ": " +
                    base::Printable(gpu.state, 20) + "\n" + facts.text();
  if (!gpu.tasks.empty()) out += "  Tasks\n" + TaskLines(gpu, now_ms, screen);
  if (!gpu.foreign.empty())
    out += "  Processes that do not belong to a task\n" + ForeignLines(gpu, screen);
  return out;
}

}  // namespace carma::cli
