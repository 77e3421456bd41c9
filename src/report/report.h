// A run with its metrics, as stored in files and compared with others.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "report/metrics.h"
#include "report/run.h"

namespace carma::report {

// Limits beyond which a file is refused.
inline constexpr std::size_t kMaxReportTasks = 1'000'000;
inline constexpr std::size_t kMaxReportGpus = 100'000;
inline constexpr std::size_t kMaxReports = 1'000;

struct Report {
  Metrics metrics;
  // The record, for figures; empty: only the metrics were stored (replays). Its points may be
  // thinned out, so metrics are not recomputed from it.
  std::optional<RunRecord> run;
};

// Makes a report with the metrics of the record.
Report MakeReport(RunRecord run);

// One line of JSON: the fields of the metrics, and the record as "run" {"version": 1, …} where
// there is one (docs/server/metrics.md). A task takes about 250 bytes.
std::string ToJsonText(const Report& report);
// One report, or a list of them. Errors: kInvalid with JSON pointer: a version that is not 1, more
// than the limits, attempts on GPUs that do not exist, times that go back, or equal task ids.
Result<std::vector<Report>> ReportsFromJsonText(std::string_view text);

// Replays of one case: reports with the same label. Cases are in the order of their first report.
struct Case {
  std::string label;
  std::vector<const Metrics*> replays;  // at least one
};
// A report without a label is a separate case.
std::vector<Case> CasesOf(std::span<const Metrics> runs);

// Mean and standard deviation (n - 1) over the replays of a case.
struct Estimated {
  double mean = 0;
  double sd = 0;  // 0 for a single run
  std::size_t runs = 0;
};
// values: one per run, at least one.
Estimated EstimatedOf(std::span<const double> values);
// True if the 95 % confidence interval of the difference of two means (Student's t) contains 0, so
// it is not significant; false if one side is a single run, because then it is unknown.
bool WithinNoise(const Estimated& a, const Estimated& b);

// Two columns, name and value, for people.
std::string Table(const Metrics& metrics);
// Side by side, one column per case; all but the first also show the difference from it in percent,
// in brackets if within the noise. Replays show mean ± standard deviation.
std::string Compare(std::span<const Metrics> runs);
// Metrics of groups of tasks, one row per case and group; empty if no run has groups.
std::string GroupTable(std::span<const Metrics> runs);

// Predicted against measured, one row per case, quantity and method; empty without predictions. For
// replays it shows the first.
std::string ForecastTable(std::span<const Metrics> runs);

// One row per run with a header line: the metrics in SI units, empty where not reported.
std::string RunsCsv(std::span<const Metrics> runs);
// One row per task with a header line, of the reports that have records; times in s since the run's
// first submission.
std::string TasksCsv(std::span<const Report> reports);

}  // namespace carma::report
