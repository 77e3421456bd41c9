// `carma report`: reports what ended tasks used and how long they waited, and compares reports.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/calendar.h"
#include "base/file.h"
#include "base/host.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "report/html.h"
#include "report/report.h"
#include "report/result.h"

namespace carma::cli {
namespace {

using report::Report;

constexpr std::size_t kMaxReportBytes = std::size_t{512} << 20;
constexpr std::size_t kMaxFiles = 100;

struct ReportFlags {
  std::string since;
  std::string until;
  std::string name;
  std::int64_t last = 0;  // 0 for all tasks in the span
  std::vector<std::string> files;
  bool csv = false;
  bool tasks = false;
  std::string html;
};

void SetLabel(Report& report, const std::string& label) {
  report.metrics.label = label;
  if (report.run) report.run->label = label;
}

Result<std::string> Target(Context& context, const ReportFlags& flags) {
  std::string query = CARMA_TRY(TimesQuery(context, flags.since, flags.until));
  if (flags.last > 0) query += fmt::format("&last={}", flags.last);
  // Requests the record of the run only if it is needed; the table needs only the totals.
  if (context.json || flags.tasks || !flags.html.empty()) query += "&run=1";
  if (!query.empty()) query.front() = '?';
  return "/v1/report" + query;
}

Result<std::vector<Report>> AskDaemon(Context& context, const ReportFlags& flags) {
  const std::string target = CARMA_TRY(Target(context, flags));
  const std::string answer = CARMA_TRY(context.client().Get(target, kBooksAnswerS));
  Result<std::vector<Report>> reports = report::ReportsFromJsonText(answer);
  if (!reports) return Fail(ErrorCode::kIo, "the daemon's report: " + reports.error().message);
  return reports;
}

std::string NameFrom(const std::string& path) {
  const std::string file(base::BaseName(path));
  return file.ends_with(".json") ? file.substr(0, file.size() - 5) : file;
}

Result<std::vector<Report>> LoadReports(const std::vector<std::string>& paths) {
  if (paths.size() > kMaxFiles)
    return Invalid("report: expected at most {} files, not {}", kMaxFiles, paths.size());
  std::vector<Report> all;
  for (const std::string& path : paths) {
    const std::string text = CARMA_TRY(ReadInput(path, kMaxReportBytes));
    std::vector<Report> reports =
        CARMA_TRY(base::Wrap(report::ReportsFromJsonText(text), InputName(path)));
    for (Report& each : reports) {
      if (each.metrics.label.empty()) SetLabel(each, NameFrom(InputName(path)));
      all.push_back(std::move(each));
    }
  }
  return all;
}

Result<Unit> WriteHtml(Context& context, const std::vector<Report>& reports,
                       const std::string& path, bool of_daemon) {
  const std::string& label = reports.front().metrics.label;
  std::string title = of_daemon ? "CARMA report of " + base::HostName() : "CARMA report";
  if (reports.size() == 1 && !label.empty()) title += ": " + label;
  // The page shows the time of day only for a run of this daemon.
  std::optional<report::Clock> clock;
  if (of_daemon && reports.front().run)
    clock = report::Clock{base::Calendar::OfServer().AheadOfUtc(reports.front().run->to)};
  const std::string html = report::Html(reports, title, clock);
  if (path == "-") {
    Print(context, html);
    return Unit{};
  }
  return base::WriteFileAtomic(path, html);
}

void Output(Context& context, const ReportFlags& flags, const std::vector<Report>& reports) {
  std::vector<report::Metrics> metrics;
  for (const Report& each : reports) metrics.push_back(each.metrics);
  if (context.json) {
    std::vector<std::string> texts;
    for (const Report& each : reports) texts.push_back(report::ToJsonText(each));
    return Print(context, (texts.size() == 1 ? texts.front() : JsonList(texts)) + "\n");
  }
  if (flags.tasks && std::ranges::any_of(reports, [](const Report& each) { return !each.run; }))
    Warn(context, "reports without a record (carma simulate --json --record) have no task rows");
  if (flags.csv)
    return Print(context, flags.tasks ? report::TasksCsv(reports) : report::RunsCsv(metrics));
  Print(context,
        WrapTo(base::Printable(report::ResultSentence(metrics), 1000), ScreenOf(context.out)) +
            "\n\n" + report::Compare(metrics));
  for (const std::string& table : {report::GroupTable(metrics), report::ForecastTable(metrics)}) {
    if (!table.empty()) Print(context, "\n" + table);
  }
}

Result<Unit> RunReport(Context& context, const ReportFlags& flags) {
  if (flags.tasks && !flags.csv) return Invalid("--tasks: needs --csv");
  const bool spans = !flags.since.empty() || !flags.until.empty() || flags.last > 0;
  if (!flags.files.empty() && (spans || !flags.name.empty()))
    return Invalid("--since, --until, --last and --name cannot be combined with files");
  const bool of_daemon = flags.files.empty();
  std::vector<Report> reports =
      CARMA_TRY(of_daemon ? AskDaemon(context, flags) : LoadReports(flags.files));
  if (!flags.name.empty()) SetLabel(reports.front(), flags.name);
  if (!flags.html.empty()) CARMA_TRY(WriteHtml(context, reports, flags.html, of_daemon));
  if (flags.html.empty() || context.json || flags.csv) Output(context, flags, reports);
  return Unit{};
}

}  // namespace

void AddReportCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb("report", "Report on a run: times, GPU usage, energy, crashes");
  verb.Footer(
      "  carma report --since 12h\n"
      "  carma report --since \"2026-03-01 14:00\" --name magm --json > magm.json\n"
      "  carma report exclusive.json magm.json --html both.html\n"
      "  carma simulate --runs 20 --noise 0.03 --json | carma report - --html runs.html\n"
      "  carma report --last 100 --csv --tasks > tasks.csv\n"
      "Covers tasks submitted between --since and --until; docs/server/metrics.md defines the\n"
      "metrics. Several reports are compared with the first; reports with the same name count as\n"
      "replays of one run.\n"
      "Every verb also takes --json and --socket PATH.");
  auto flags = std::make_shared<ReportFlags>();
  verb.AddOption("files", "FILE", flags->files,
                 "saved reports (--json) instead of the daemon's history, or - for standard input");
  verb.AddOption("--since", "TIME", flags->since,
                 "only tasks submitted since TIME: a date, or 2h for two hours ago");
  verb.AddOption("--until", "TIME", flags->until,
                 "only tasks submitted before TIME: a date, or 2h for two hours ago");
  verb.AddOption("--last", "N", flags->last, "only the last N tasks submitted in that period")
      .Range(std::int64_t{1}, std::int64_t{1'000'000});
  verb.AddOption("--name", "LABEL", flags->name, "name for the run in tables");
  verb.AddFlag("--csv", flags->csv, "one row per run, comma-separated");
  verb.AddFlag("--tasks", flags->tasks, "with --csv: one row per task");
  verb.AddOption("--html", "FILE", flags->html,
                 "write tables and figures as one HTML file, or to standard output with -");
  verb.OnRun([&context, flags] { context.Report(RunReport(context, *flags)); });
}

}  // namespace carma::cli
