// report, report compare.
#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>

#include "base/file.h"
#include "base/text.h"
#include "cli/calls.h"
#include "cli/command.h"
#include "cli/verbs.h"
#include "report/report.h"

namespace carma::cli {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;

constexpr std::size_t kMaxReportBytes = 1 << 20;
constexpr std::size_t kMaxReports = 100;

struct ReportFlags {
  std::string since;
  std::string until;
  std::string name;
};

// "2026-03-01", "2026-03-01 14:05", "2026-03-01T14:05:59", in local time.
std::optional<base::Time> ParseDate(const std::string& text) {
  for (const char* format :
       {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    std::tm parts{};
    const char* end = ::strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    parts.tm_isdst = -1;
    const std::time_t seconds = std::mktime(&parts);
    if (seconds == -1) return std::nullopt;
    return base::FromMs(std::int64_t{seconds} * 1000);
  }
  return std::nullopt;
}

// A date, or how long ago: "2h", "7d". "Ago" is told on the daemon's clock, which on a simulated
// server is not ours.
Result<base::Time> ParseMoment(Context& context, const char* option, const std::string& text) {
  if (const std::optional<base::Time> date = ParseDate(text)) return *date;
  const bool has_unit = text.find_first_of("smhd") != std::string::npos;
  const Result<base::Duration> ago = base::ParseSpan(text);
  if (!has_unit || !ago) {
    return Fail(ErrorCode::kInvalid,
                std::string(option) +
                    ": expected a date like \"2026-03-01 14:05\" or a span like " +
                    "2h for so long ago, not '" + base::Printable(text, 40) + "'");
  }
  const Called<api::StatusView> status = GetStatus(context.client());
  if (!status) return std::unexpected(status.error());
  return base::FromMs(status->value.now_ms) - *ago;
}

Result<std::string> Query(Context& context, const ReportFlags& flags) {
  std::string query;
  const auto add = [&](const char* option, const char* key,
                       const std::string& text) -> Result<Unit> {
    if (text.empty()) return Unit{};
    const Result<base::Time> moment = ParseMoment(context, option, text);
    if (!moment) return std::unexpected(moment.error());
    query += (query.empty() ? "?" : "&") + std::string(key) + "=" +
             std::to_string(std::max<std::int64_t>(0, base::ToMs(*moment)));
    return Unit{};
  };
  if (Result<Unit> added = add("--since", "after_ms", flags.since); !added)
    return std::unexpected(added.error());
  if (Result<Unit> added = add("--until", "until_ms", flags.until); !added)
    return std::unexpected(added.error());
  return "/v1/report" + query;
}

void RunReport(Context& context, const ReportFlags& flags) {
  const Result<std::string> target = Query(context, flags);
  if (!target) return context.Fail(target.error());
  const Result<std::string> answer = context.client().Get(*target);
  if (!answer) return context.Fail(answer.error());
  Result<report::Metrics> metrics = report::FromJsonText(*answer);
  if (!metrics) {
    return context.Fail({ErrorCode::kIo, "the daemon's report: " + metrics.error().message});
  }
  if (!flags.name.empty()) metrics->label = flags.name;
  Print(context, context.json ? report::ToJsonText(*metrics) + "\n" : report::Table(*metrics));
}

Result<report::Metrics> LoadReport(const std::string& path) {
  const Result<std::string> text = base::ReadFile(path, kMaxReportBytes);
  if (!text) return std::unexpected(text.error());
  Result<report::Metrics> metrics = report::FromJsonText(*text);
  if (!metrics) return base::Wrap(metrics.error(), path);
  if (metrics->label.empty()) {
    const std::string file = path.substr(path.rfind('/') + 1);
    metrics->label = file.ends_with(".json") ? file.substr(0, file.size() - 5) : file;
  }
  return metrics;
}

void RunCompare(Context& context, const std::vector<std::string>& paths) {
  std::vector<report::Metrics> runs;
  std::vector<std::string> texts;
  for (const std::string& path : paths) {
    Result<report::Metrics> metrics = LoadReport(path);
    if (!metrics) return context.Fail(metrics.error());
    texts.push_back(report::ToJsonText(*metrics));
    runs.push_back(*std::move(metrics));
  }
  Print(context, context.json ? JsonList(texts) + "\n" : report::Compare(runs));
}

}  // namespace

void AddReportCommand(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("report", "What a run took: times, GPU use, energy, crashes");
  verb->footer(
      "  carma report --since 12h\n"
      "  carma report --since \"2026-03-01 14:00\" --name magm --json > magm.json\n"
      "  carma report compare exclusive.json magm.json\n"
      "Tasks submitted in the span count; the definitions are in docs/metrics.md.\n"
      "Every verb also takes --json and --socket PATH.");
  auto flags = std::make_shared<ReportFlags>();
  verb->add_option("--since", flags->since, "only tasks submitted since: a date, or 2h ago")
      ->type_name("TIME");
  verb->add_option("--until", flags->until, "only tasks submitted until: a date, or 2h ago")
      ->type_name("TIME");
  verb->add_option("--name", flags->name, "what the run is called in tables")->type_name("LABEL");

  CLI::App* compare = verb->add_subcommand("compare", "Reports side by side, with differences");
  auto paths = std::make_shared<std::vector<std::string>>();
  compare->add_option("reports", *paths, "files of carma report --json; the first is the base")
      ->required()
      ->expected(1, static_cast<int>(kMaxReports))
      ->type_name("FILE");
  compare->callback([&context, paths] { RunCompare(context, *paths); });
  verb->callback([&context, flags, compare] {
    if (!compare->parsed()) RunReport(context, *flags);
  });
}

}  // namespace carma::cli
