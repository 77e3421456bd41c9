#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.h"
#include "report/html_parts.h"
#include "report/lines.h"
#include "report/result.h"
#include "report/svg.h"
#include "report/tally.h"

namespace carma::report {

// The contents of style.css. The colours come from Okabe and Ito's palette, which suits all kinds
// of colour vision; they are darker behind white text. Lines also have different dash patterns, for
// printing without colour.
extern const std::string_view kStyle;

namespace {

void PutProvenance(std::string& out, const std::vector<Case>& cases) {
  out += "<section><h2>Where these runs come from</h2><dl>\n";
  for (const Case& each : cases) {
    const Metrics& first = *each.replays.front();
    Put(out, "<dt>{} <span class=\"tag\">{}</span></dt>", Escape(NameOf(each.label)),
        first.simulated ? "simulated" : "recorded");
    if (first.executed > 0 && !first.simulated) {
      Put(out, "<dd>{} to {}</dd>", base::FormatTimeIso(first.first_submitted),
          base::FormatTimeIso(first.last_ended));
    }
    if (!first.provenance.empty())
      Put(out, "<dd><code>{}</code></dd>", Escape(first.provenance, 4096));
  }
  out += "</dl><p>Definitions of the metrics: docs/server/metrics.md of CARMA.</p></section>\n";
}

// The result and its numbers, at the top of the page.
void PutResult(std::string& out, std::span<const Metrics> metrics) {
  Put(out, "<p class=\"result\">{}</p>\n", Escape(ResultSentence(metrics), 1000));
  out += "<div class=\"numbers\">";
  for (const Headline& each : Headlines(metrics)) {
    Put(out, "<div><b>{}</b><span>{}{}</span></div>", Escape(each.value), Escape(each.name),
        each.change.empty() ? "" : "<br>" + Escape(each.change));
  }
  out += "</div>\n";
}

// Longer labels would be truncated in every figure. They are replaced by letters, which a list
// explains.
constexpr std::size_t kLongLabel = 22;

std::vector<Report> WithLetters(std::span<const Report> reports, std::string& list) {
  std::vector<Report> lettered(reports.begin(), reports.end());
  std::map<std::string, std::string> letters;
  std::string items;
  for (Report& each : lettered) {
    const auto [known, added] = letters.emplace(each.metrics.label, "");
    if (added) {
      known->second = LetterOf(letters.size() - 1);
      Put(items, "<dt>{}</dt><dd>{}</dd>", known->second, Escape(known->first));
    }
    each.metrics.label = known->second;
    if (each.run) each.run->label = known->second;
  }
  list = "<dl class=\"letters\">" + items + "</dl>\n";
  return lettered;
}

bool WantsLetters(std::span<const Report> reports) {
  const auto is_long = [](const Report& each) { return each.metrics.label.size() > kLongLabel; };
  const auto is_named = [](const Report& each) { return !each.metrics.label.empty(); };
  return reports.size() > 1 && std::ranges::any_of(reports, is_long) &&
         std::ranges::all_of(reports, is_named);
}

// When the run was recorded. The time axes begin at its first submission.
std::string RecordedText(const Metrics& metrics, const std::optional<Clock>& clock) {
  if (metrics.executed == 0) return "recorded";
  if (clock) {
    return fmt::format("recorded from {} to {}", ClockText(metrics.first_submitted, *clock),
                       ClockText(metrics.last_ended, *clock));
  }
  return fmt::format("recorded from {} (0 on the time axes) to {}",
                     base::FormatTimeIso(metrics.first_submitted),
                     base::FormatTimeIso(metrics.last_ended));
}

// The page's text without the result.
std::string Body(std::span<const Report> reports, const std::optional<Clock>& clock) {
  std::string out;
  std::vector<Metrics> metrics;
  metrics.reserve(reports.size());
  for (const Report& report : reports) metrics.push_back(report.metrics);
  const std::vector<Case> cases = CasesOf(metrics);
  const bool simulated =
      std::ranges::any_of(metrics, [](const Metrics& each) { return each.simulated; });
  const bool recorded =
      std::ranges::any_of(metrics, [](const Metrics& each) { return !each.simulated; });
  Put(out, "<p>{}{}, {}; {}.</p>\n",
      metrics.size() == 1 ? "" : fmt::format("{} runs; the first: ", metrics.size()),
      base::Counted(metrics.front().tasks, "task"), base::Counted(metrics.front().gpus, "GPU"),
      simulated && recorded ? "some simulated, some recorded"
      : simulated           ? "simulated"
                            : RecordedText(metrics.front(), clock));
  PutMetrics(out, cases);
  if (cases.size() > 1 || !metrics.front().bounds.empty()) PutComparison(out, cases);
  const Recorded records = RecordsOf(reports);
  PutDistributions(out, records);
  PutTimelines(out, records, clock);
  PutWaits(out, records);
  PutLineWaits(out, records);
  PutFailures(out, records);
  PutUsers(out, cases);
  PutGroups(out, cases);
  PutForecasts(out, cases);
  PutProvenance(out, cases);
  return out;
}

}  // namespace

std::string ClockText(core::Time when, Clock clock) {
  std::string text = base::FormatTimeIso(when + clock.ahead_of_utc).substr(0, 19);
  std::ranges::replace(text, 'T', ' ');
  return text;
}

std::string HtmlPage(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>{0}</title><style>\n{1}</style></head><body>\n<h1>{0}</h1>\n{2}</body></html>\n",
      Escape(title), kStyle, body);
}

std::string GpusHtml(const RunRecord& run, std::string_view title, Clock clock) {
  std::string out;
  PutGpus(out, run, clock);
  return HtmlPage(title, out);
}

std::string Html(std::span<const Report> reports, std::string_view title,
                 const std::optional<Clock>& clock) {
  if (reports.empty()) return HtmlPage(title, "<p>There are no runs to report.</p>");
  std::vector<Metrics> metrics;
  metrics.reserve(reports.size());
  for (const Report& report : reports) metrics.push_back(report.metrics);
  std::string out, letters;
  PutResult(out, metrics);
  if (CasesOf(metrics).size() == 1)
    return HtmlPage(title, out + "<div class=\"single\">" + Body(reports, clock) + "</div>");
  if (!WantsLetters(reports)) return HtmlPage(title, out + Body(reports, clock));
  const std::vector<Report> lettered = WithLetters(reports, letters);
  return HtmlPage(title, out + letters + Body(lettered, clock));
}

}  // namespace carma::report
