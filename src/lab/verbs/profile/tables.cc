#include "lab/verbs/profile/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/csv.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/table.h"
#include "core/values/mps_guess.h"
#include "lab/sim/gpu_types.h"
#include "report/charts.h"
#include "report/html.h"

namespace carma::cli {
namespace {

using base::Json;
using profile::WorkloadProfile;
using report::Estimated;

constexpr double kHalf = 590;
constexpr std::size_t kMaxBars = 60;

std::string Maybe(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : "-";
}

std::string SecondsText(double seconds) {
  return fmt::format("{:.{}f} s", seconds, seconds < 100 ? 2 : 0);
}

std::string SpreadText(const Estimated& spread, int decimals) {
  if (spread.runs < 2) return fmt::format("{:.{}f}", spread.mean, decimals);
  return fmt::format("{:.{}f} ± {:.{}f}", spread.mean, decimals, spread.sd, decimals);
}

bool SameAll(const std::vector<std::string>& members) {
  return std::ranges::all_of(members, [&](const std::string& each) { return each == members[0]; });
}

// Formats the members as "3 x a" or "a + b".
std::string GroupText(const std::vector<std::string>& members) {
  if (members.size() > 1 && SameAll(members))
    return fmt::format("{} x {}", members.size(), members[0]);
  return base::Join(members, " + ");
}

// A table that is shown in the terminal and in the HTML report.
struct Sheet {
  std::vector<std::string> titles;
  std::size_t left = 1;  // number of left-aligned columns
  std::vector<std::vector<std::string>> rows;
};

Sheet ProfileSheet(const TypeFindings& type) {
  Sheet sheet{
      {"WORKLOAD", "U", "S", "P", "TIME", "ITERATION", "LOAD", "MEM", "RUNS", "SPREAD", "ERROR"}};
  for (const WorkloadProfile& each : type.profiles) {
    sheet.rows.push_back(
        {each.workload, Maybe(each.sm_active, 3), Maybe(each.sensitivity, 3),
         Maybe(each.pressure, 3), SecondsText(each.time_s),
         each.iterations ? fmt::format("{:.4g} ms", *profile::IterationS(each) * 1000) : "-",
         SecondsText(each.load_s), each.memory_mib ? base::FormatMib(*each.memory_mib) : "-",
         std::to_string(each.runs), fmt::format("{:.1f} %", each.time_spread * 100),
         each.fit_error ? fmt::format("{:.1f} %", *each.fit_error * 100) : "-"});
  }
  return sheet;
}

Sheet MeetingSheet(const TypeFindings& type) {
  Sheet sheet{{"GROUP", "METHOD", "WORKLOAD", "SLOWDOWN", "PREDICTED", "RUNS"}, 3};
  for (const Meeting& each : type.meetings) {
    sheet.rows.push_back({GroupText(each.members), std::string(base::WordOf(each.method)),
                          each.workload, SpreadText(each.slowdown, 3), Maybe(each.predicted, 3),
                          std::to_string(each.slowdown.runs)});
  }
  return sheet;
}

Sheet WatchingSheet(const TypeFindings& type) {
  Sheet sheet{{"WATCHED BY", "WORKLOAD", "LONGER", "RUNS"}, 2};
  for (const WatchingCost& each : type.watching) {
    const Estimated percent{each.share.mean * 100, each.share.sd * 100, each.share.runs};
    sheet.rows.push_back({std::string(base::WordOf(each.watcher)), each.workload,
                          SpreadText(percent, 2) + " %", std::to_string(percent.runs)});
  }
  return sheet;
}

// One line for each sharing method: its slowdown formula and how well the formula fits the pairs.
std::vector<std::string> ModelLines(const TypeFindings& type) {
  std::vector<std::string> lines;
  if (type.mps_error) {
    lines.push_back(fmt::format(
        "MPS: slowdown_i = 1 + s_i * sum of the others' p_j; mean error over the pairs {:.1f} %",
        *type.mps_error * 100));
  }
  if (type.streams_a) {
    lines.push_back(fmt::format(
        "streams: slowdown_i = 1 + {:.2f} * g_i * sum of the others' g_j, g = 1 - (1-u)^1.7; mean "
        "error over the pairs {:.1f} %",
        *type.streams_a, *type.streams_error * 100));
  }
  return lines;
}

std::string SheetText(const Sheet& sheet, const Screen& screen) {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < sheet.titles.size(); ++i)
    columns.push_back({.title = sheet.titles[i], .right = i >= sheet.left});
  Table table(std::move(columns));
  for (const std::vector<std::string>& cells : sheet.rows) {
    std::vector<Cell> row;
    for (const std::string& cell : cells) row.push_back({cell});
    table.Add(std::move(row));
  }
  return table.Text(screen);
}

std::string TypeText(const TypeFindings& type, const Screen& screen) {
  std::string text = type.gpu_type + "\n" + SheetText(ProfileSheet(type), screen);
  for (const std::string& line : ModelLines(type)) text += line + "\n";
  for (const Sheet& sheet : {MeetingSheet(type), WatchingSheet(type)}) {
    if (!sheet.rows.empty()) text += "\n" + SheetText(sheet, screen);
  }
  return text;
}

// ---- JSON ----

Json SpreadJson(const Estimated& spread) {
  return {{"mean", spread.mean}, {"sd", spread.sd}, {"runs", spread.runs}};
}

void PutOptional(Json& json, const char* key, const std::optional<double>& value) {
  if (value) json[key] = *value;
}

Json ProfileJson(const WorkloadProfile& each) {
  Json json = {{"workload", each.workload},       {"load_s", each.load_s},
               {"time_s", each.time_s},           {"runs", each.runs},
               {"time_spread", each.time_spread}, {"meetings", each.meetings}};
  PutOptional(json, "sm_active", each.sm_active);
  PutOptional(json, "sensitivity", each.sensitivity);
  PutOptional(json, "pressure", each.pressure);
  PutOptional(json, "iteration_s", profile::IterationS(each));
  PutOptional(json, "fit_error", each.fit_error);
  if (each.memory_mib) json["memory_mib"] = *each.memory_mib;
  if (!each.signature.empty()) json["signature"] = each.signature;
  return json;
}

Json TypeJson(const TypeFindings& type) {
  Json json = {{"gpu_type", type.gpu_type},
               {"profiles", Json::array()},
               {"meetings", Json::array()},
               {"watching", Json::array()}};
  for (const WorkloadProfile& each : type.profiles) json["profiles"].push_back(ProfileJson(each));
  for (const Meeting& each : type.meetings) {
    Json meeting = {{"method", base::WordOf(each.method)},
                    {"members", each.members},
                    {"workload", each.workload},
                    {"slowdown", SpreadJson(each.slowdown)}};
    PutOptional(meeting, "predicted", each.predicted);
    json["meetings"].push_back(std::move(meeting));
  }
  for (const WatchingCost& each : type.watching) {
    json["watching"].push_back({{"workload", each.workload},
                                {"watcher", base::WordOf(each.watcher)},
                                {"share", SpreadJson(each.share)}});
  }
  PutOptional(json, "mps_error", type.mps_error);
  PutOptional(json, "streams_a", type.streams_a);
  PutOptional(json, "streams_error", type.streams_error);
  return json;
}

// ---- HTML ----

void PutHtmlRow(std::string& out, const std::vector<std::string>& cells, const char* tag) {
  out += "<tr>";
  for (const std::string& cell : cells)
    out += fmt::format("<{0}>{1}</{0}>", tag, report::Escape(cell));
  out += "</tr>\n";
}

void PutTable(std::string& out, const Sheet& sheet) {
  out += "<div class=\"scroll\"><table><thead>";
  PutHtmlRow(out, sheet.titles, "th");
  out += "</thead><tbody>\n";
  for (const std::vector<std::string>& row : sheet.rows) PutHtmlRow(out, row, "td");
  out += "</tbody></table></div>\n";
}

void PutFigure(std::string& out, std::string_view caption, std::vector<report::Bar> bars,
               const report::BarMark& mark) {
  if (bars.empty()) return;
  if (bars.size() > kMaxBars) bars.resize(kMaxBars);
  double most = mark.value;
  for (const report::Bar& bar : bars) most = std::max(most, bar.parts[0].value + bar.error);
  const double high = report::NiceEnd(most);
  out += fmt::format(
      "<figure><figcaption>{}</figcaption>{}</figure>\n", report::Escape(caption),
      report::BarChart(caption, bars, {&mark, 1}, high, report::NiceTicks(high, 6), kHalf));
}

std::string_view ColourOf(ProfileMethod method) {
  return method == ProfileMethod::kMps ? "c1" : method == ProfileMethod::kStreams ? "c2" : "c0";
}

// Formats a pair as "a / b", because bar labels must be short.
std::string PairText(const Meeting& meeting) {
  const bool first = meeting.members.front() == meeting.workload;
  return meeting.workload + " / " + (first ? meeting.members.back() : meeting.members.front());
}

// Draws two figures: the slowdown by number of copies of a workload, and the slowdowns in pairs of
// different workloads.
void PutMeetingFigures(std::string& out, const TypeFindings& type) {
  out += "<div class=\"grid\">\n";
  for (const auto& [method, word] : kProfileMethodWords) {
    std::vector<report::Bar> copies, pairs;
    for (const Meeting& each : type.meetings) {
      if (each.method != method) continue;
      const bool same = SameAll(each.members);
      const std::string label = same ? GroupText(each.members) : PairText(each);
      (same ? copies : pairs)
          .push_back({.label = label,
                      .parts = {{each.slowdown.mean, std::string(ColourOf(method))}},
                      .error = each.slowdown.sd,
                      .text = SpreadText(each.slowdown, 2)});
    }
    const report::BarMark alone{1, "alone"};
    PutFigure(out, fmt::format("Slowdown of copies, {}", word), std::move(copies), alone);
    PutFigure(out, fmt::format("Slowdown of the first workload alongside the second, {}", word),
              std::move(pairs), alone);
  }
  out += "</div>\n";
}

void PutType(std::string& out, const TypeFindings& type) {
  out += fmt::format("<section><h2>{}</h2>\n", report::Escape(type.gpu_type));
  PutTable(out, ProfileSheet(type));
  for (const std::string& line : ModelLines(type))
    out += fmt::format("<p>{}</p>\n", report::Escape(line));
  PutMeetingFigures(out, type);
  for (const Sheet& sheet : {MeetingSheet(type), WatchingSheet(type)}) {
    if (!sheet.rows.empty()) PutTable(out, sheet);
  }
  out += "</section>\n";
}

// Lists each kind of failed run once, with the reason for its first failure. Methods that fail in
// the same way are merged.
std::vector<std::pair<std::string, std::string>> Failures(std::span<const MeasuredRun> runs) {
  std::map<std::pair<std::string, ProfileMethod>, std::string> first;
  for (const MeasuredRun& run : runs) {
    const std::string group = fmt::format("{} on {}", GroupText(run.run.members), run.run.gpu_type);
    if (!run.failed.empty()) first.try_emplace({group, run.run.method}, run.failed);
  }
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> alike;
  for (const auto& [key, why] : first)
    alike[{key.first, why}].emplace_back(base::WordOf(key.second));
  std::vector<std::pair<std::string, std::string>> failures;
  for (const auto& [key, methods] : alike)
    failures.emplace_back(fmt::format("{}, {}", key.first, base::Join(methods, ", ")), key.second);
  return failures;
}

}  // namespace

std::string FindingsText(std::span<const TypeFindings> findings, std::span<const MeasuredRun> runs,
                         const Screen& screen) {
  std::string text;
  for (const TypeFindings& type : findings)
    text += (text.empty() ? "" : "\n") + TypeText(type, screen);
  for (const auto& [what, why] : Failures(runs)) text += fmt::format("failed: {}: {}\n", what, why);
  return text;
}

std::string FindingsJson(std::span<const TypeFindings> findings,
                         std::span<const MeasuredRun> runs) {
  Json json = {{"types", Json::array()}, {"failed", Json::array()}};
  for (const TypeFindings& type : findings) json["types"].push_back(TypeJson(type));
  for (const auto& [what, why] : Failures(runs))
    json["failed"].push_back({{"what", what}, {"why", why}});
  return base::DumpJson(json) + "\n";
}

std::string MeetingsCsv(std::span<const TypeFindings> findings) {
  std::string text = "gpu_type,method,degree,members,workload,slowdown,sd,runs,predicted\n";
  for (const TypeFindings& type : findings) {
    for (const Meeting& each : type.meetings) {
      text += fmt::format(
          "{},{},{},{},{},{},{},{},{}\n", base::CsvCell(type.gpu_type), base::WordOf(each.method),
          each.members.size(), base::CsvCell(base::Join(each.members, " + ")),
          base::CsvCell(each.workload), each.slowdown.mean, each.slowdown.sd, each.slowdown.runs,
          each.predicted ? fmt::format("{}", *each.predicted) : "");
    }
  }
  return text;
}

std::string WatchingCsv(std::span<const TypeFindings> findings) {
  std::string text = "gpu_type,watcher,workload,longer_share,sd,runs\n";
  for (const TypeFindings& type : findings) {
    for (const WatchingCost& each : type.watching) {
      text += fmt::format("{},{},{},{},{},{}\n", base::CsvCell(type.gpu_type),
                          base::WordOf(each.watcher), base::CsvCell(each.workload), each.share.mean,
                          each.share.sd, each.share.runs);
    }
  }
  return text;
}

bool InCatalogue(const WorkloadProfile& workload) {
  return workload.sm_active && workload.memory_mib;
}

std::string CatalogueCsv(const TypeFindings& type) {
  const auto known = std::ranges::find(sim::GpuTypes(), type.gpu_type, &sim::GpuType::nvml_name);
  const double speed = known == sim::GpuTypes().end() ? 1 : known->relative_speed;
  std::string text =
      "workload_id,gpus,solo_seconds,solo_smact,mps_sensitivity,mps_pressure,memory_mib\n";
  for (const WorkloadProfile& each : type.profiles) {
    if (!InCatalogue(each)) continue;
    const core::MpsParameters guess = core::GuessMps(*each.sm_active, {});
    text += fmt::format("{},1,{},{},{},{},{}\n", base::CsvCell(each.workload), each.time_s * speed,
                        *each.sm_active, each.sensitivity.value_or(guess.sensitivity),
                        each.pressure.value_or(guess.pressure), *each.memory_mib);
  }
  return text;
}

std::string FindingsHtml(std::span<const TypeFindings> findings, std::span<const MeasuredRun> runs,
                         std::string_view title) {
  std::string body =
      "<p>U: solo SM activity; S, P: sensitivity and pressure under MPS; TIME: solo computing "
      "time; ERROR: mean error of the predicted slowdowns. See docs/server/profile.md in "
      "the CARMA repository.</p>\n";
  for (const TypeFindings& type : findings) PutType(body, type);
  const auto failures = Failures(runs);
  if (!failures.empty()) body += "<section><h2>What failed</h2><dl>\n";
  for (const auto& [what, why] : failures) {
    body += fmt::format("<dt>{}</dt><dd>{}</dd>\n", report::Escape(what, 1000),
                        report::Escape(why, 1000));
  }
  if (!failures.empty()) body += "</dl></section>\n";
  return report::HtmlPage(title, body);
}

}  // namespace carma::cli
