// `carma usage`: shows what each user has used.
#include <fmt/format.h>

#include <memory>

#include "api/url.h"
#include "base/csv.h"
#include "base/text.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/table.h"

namespace carma::cli {
namespace {

using api::UsageView;

struct UsageFlags {
  std::string by = "user";
  std::string since;
  std::string until;
  bool csv = false;
};

std::string Hours(double seconds) {
  const double hours = seconds / 3600;
  return hours < 10 ? fmt::format("{:.2f}", hours) : fmt::format("{:.1f}", hours);
}

std::string EnergyText(const std::optional<double>& energy_j) {
  if (!energy_j) return "-";
  return fmt::format("{:.2f}", *energy_j / 3.6e6);
}

// The unused share of the promised memory over time.
std::string UnusedText(const UsageView& row) {
  if (row.promised_mib_s <= 0) return "-";
  return fmt::format("{:.0f} %", 100 * row.unused_mib_s / row.promised_mib_s);
}

UsageView SumOf(const std::vector<UsageView>& rows) {
  UsageView all;
  for (const UsageView& row : rows) {
    all.attempts += row.attempts;
    all.gpu_s += row.gpu_s;
    all.share_s += row.share_s;
    all.waiting_s += row.waiting_s;
    if (row.energy_j) all.energy_j = all.energy_j.value_or(0) + *row.energy_j;
    all.ooms += row.ooms;
    all.promised_mib_s += row.promised_mib_s;
    all.unused_mib_s += row.unused_mib_s;
  }
  return all;
}

std::vector<Cell> CellsOf(const UsageView& row, const std::vector<std::string>& names) {
  std::vector<Cell> cells;
  for (const std::string& name : names) cells.push_back({base::Printable(name, 64)});
  for (const std::string& text :
       {std::to_string(row.attempts), Hours(row.gpu_s), Hours(row.share_s),
        EnergyText(row.energy_j), Hours(row.waiting_s), std::to_string(row.ooms), UnusedText(row)})
    cells.push_back({text});
  return cells;
}

std::string TableOf(Context& context, const std::vector<UsageView>& rows, const std::string& by) {
  struct Name {
    std::vector<std::string_view> words;
    const char* title;
    std::string UsageView::*value;
  };
  std::vector<Name> names;
  for (const Name& each :
       {Name{{"user"}, "USER", &UsageView::user}, Name{{"account"}, "ACCOUNT", &UsageView::account},
        Name{{"class", "qos"}, "CLASS", &UsageView::qos},
        Name{{"month"}, "MONTH", &UsageView::period}, Name{{"day"}, "DAY", &UsageView::period}}) {
    const auto is_named = [&](std::string_view word) {
      return std::ranges::find(each.words, base::Trim(word)) != each.words.end();
    };
    if (std::ranges::any_of(base::Split(by, ','), is_named)) names.push_back(each);
  }
  std::vector<Column> columns;
  for (const Name& each : names) columns.push_back({each.title, false, 6});
  for (const char* title :
       {"STARTS", "GPU-HOURS", "SHARE-HOURS", "KWH", "WAITED-HOURS", "OOM", "PROMISED, UNUSED"})
    columns.push_back({title, true});
  Table table(std::move(columns));
  for (const UsageView& row : rows) {
    std::vector<std::string> texts;
    for (const Name& each : names) {
      const std::string& text = row.*each.value;
      texts.push_back(text.empty() ? "-" : text);
    }
    table.Add(CellsOf(row, texts));
  }
  if (rows.size() > 1) {
    std::vector<std::string> texts(names.size());
    texts.front() = "all";
    table.Add(CellsOf(SumOf(rows), texts));
  }
  return table.Text(ScreenOf(context.out));
}

std::string CsvOf(const std::vector<UsageView>& rows) {
  std::string text =
      "user,account,qos,period,tasks,attempts,gpu_s,share_s,waiting_s,energy_j,ooms,"
      "promised_mib_s,unused_mib_s\n";
  for (const UsageView& row : rows) {
    for (const std::string* name : {&row.user, &row.account, &row.qos, &row.period})
      text += base::CsvCell(*name) + ",";
    text += fmt::format("{},{},{:.3f},{:.3f},{:.3f},{},{},{:.0f},{:.0f}\n", row.tasks, row.attempts,
                        row.gpu_s, row.share_s, row.waiting_s,
                        row.energy_j ? fmt::format("{:.1f}", *row.energy_j) : "", row.ooms,
                        row.promised_mib_s, row.unused_mib_s);
  }
  return text;
}

void RunUsage(Context& context, const UsageFlags& flags) {
  const Result<std::string> times = TimesQuery(context, flags.since, flags.until);
  if (!times) return context.Fail(times.error());
  const auto rows = ListUsage(context.client(), "by=" + api::Escape(flags.by) + *times);
  if (!rows) return context.Fail(rows.error());
  if (context.json) return Print(context, rows->text + "\n");
  if (flags.csv) return Print(context, CsvOf(rows->value));
  if (rows->value.empty()) return Warn(context, "no task held a GPU in that period");
  Print(context, TableOf(context, rows->value, flags.by));
}

}  // namespace

void AddUsageCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb(
      "usage", "Show usage per user: GPU hours, energy, waiting, crashes, unused promised memory");
  verb.Footer(
      "  carma usage --since 7d\n"
      "  carma usage --by account,month --csv > months.csv\n"
      "  carma usage --by user,class --since 2026-03-01 --until 2026-04-01\n"
      "Each attempt counts from placement to its end; a running one counts up to now. Months and\n"
      "days are in UTC. Records are kept for 400 days (docs/server/sharing.md).\n"
      "Every verb also takes --json and --socket PATH.");
  auto flags = std::make_shared<UsageFlags>();
  verb.AddOption("--by", "LIST", flags->by,
                 "fields to group by: user, account, class, and month or day")
      .ShowDefault();
  verb.AddOption("--since", "TIME", flags->since,
                 "only usage since TIME: a date, or 2h for two hours ago");
  verb.AddOption("--until", "TIME", flags->until,
                 "only usage until TIME: a date, or 2h for two hours ago");
  verb.AddFlag("--csv", flags->csv, "comma-separated values, in seconds and MiB");
  verb.OnRun([&context, flags] { RunUsage(context, *flags); });
}

}  // namespace carma::cli
