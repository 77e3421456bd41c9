#include <cmath>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "config/settings.h"
#include "core/policy/policy.h"
#include "entries.h"
#include "report/html.h"
#include "report/report.h"

namespace carma::fuzz {

void FuzzConfig(std::string_view bytes) {
  const auto loaded = config::LoadText("fuzz.toml", bytes, /*root=*/true);
  if (!loaded) {
    CARMA_CHECK(base::IsUtf8(loaded.error().message), "a readable error");
    CARMA_CHECK(loaded.error().message.find('\n') == std::string::npos, "one line");
    return;
  }
  // The output of `carma config show` must parse to an equal configuration.
  std::string shown;
  for (const auto& [name, origin] : loaded->origins) shown += name + " = " + origin.value + "\n";
  const auto again = config::LoadText("shown.toml", shown, /*root=*/true);
  CARMA_CHECK(again || loaded->settings.published, "the shown configuration is valid");
  if (!again) return;
  for (const auto& [name, origin] : again->origins) {
    CARMA_CHECK(origin.value == loaded->origins.at(name).value || loaded->settings.published,
                "the shown configuration has the same values");
  }
}

void FuzzRule(std::string_view bytes) {
  const auto rule = core::GpuRule::Parse(bytes);
  if (!rule) {
    CARMA_CHECK(base::IsUtf8(rule.error().message), "a readable error");
    return;
  }
  const core::GpuView gpu{.total_mib = 40'000, .free_mib = 10'000, .tasks = 2};
  CARMA_CHECK(std::isfinite(rule->Value({}, {.memory_mib = 5'000}, gpu)), "a number");
  CARMA_CHECK(*core::GpuRule::Parse(rule->text()) == *rule, "the same again");
}

void FuzzReport(std::string_view bytes) {
  const auto reports = report::ReportsFromJsonText(bytes);
  if (!reports) {
    CARMA_CHECK(base::IsUtf8(reports.error().message), "a readable error");
    return;
  }
  std::vector<report::Metrics> metrics;
  for (const report::Report& each : *reports) {
    const std::string text = report::ToJsonText(each);
    const auto again = report::ReportsFromJsonText(text);
    CARMA_CHECK(again && again->size() == 1, "a written report can be read back");
    CARMA_CHECK(again->front().metrics == each.metrics, "the metrics survive a round trip");
    CARMA_CHECK(report::ToJsonText(again->front()) == text, "the record survives a round trip");
    if (each.run) {
      const report::Metrics computed = report::Compute(*each.run);
      CARMA_CHECK(!report::Compare({&computed, 1}).empty(), "computed anew");
    }
    metrics.push_back(each.metrics);
  }
  CARMA_CHECK(!report::Compare(metrics).empty(), "a table");
  CARMA_CHECK(!report::RunsCsv(metrics).empty() && !report::TasksCsv(*reports).empty(), "CSV");
  const std::string html = report::Html(*reports, "fuzz");
  CARMA_CHECK(html.ends_with("</html>\n") && base::IsUtf8(html), "a page");
}

}  // namespace carma::fuzz
