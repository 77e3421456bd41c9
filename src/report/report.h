// A run with its metrics, as stored in files and compared with other runs.
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

// A file that exceeds these limits is rejected.
inline constexpr std::size_t kMaxReportTasks = 1'000'000;
inline constexpr std::size_t kMaxReportGpus = 100'000;
inline constexpr std::size_t kMaxReports = 1'000;

struct Report {
  Metrics metrics;
  // The record, for figures. Empty if only the metrics were stored (replays). Its points may be
  // thinned out, so metrics must not be recomputed from it.
  std::optional<RunRecord> run;
};

// Computes the metrics of the record and returns both as a report.
Report MakeReport(RunRecord run);

// Returns one line of JSON with the fields of the metrics and, if present, the record as "run"
// {"version": 1, …} (docs/server/metrics.md). A task takes about 250 bytes.
std::string ToJsonText(const Report& report);
// Reads one report or a list of reports. Returns kInvalid, with a JSON pointer, for a version other
// than 1, sizes beyond the limits, attempts on unknown GPUs, times that go backwards, or duplicate
// task ids.
Result<std::vector<Report>> ReportsFromJsonText(std::string_view text);

// The replays of one case, which are reports with the same label. Cases are ordered by their first
// report.
struct Case {
  std::string label;
  std::vector<const Metrics*> replays;  // at least one
};
// Each report without a label is a separate case.
std::vector<Case> CasesOf(std::span<const Metrics> runs);

// Mean and standard deviation (n - 1) over the replays of a case.
struct Estimated {
  double mean = 0;
  double sd = 0;  // 0 for a single run
  std::size_t runs = 0;
};
// values: one per run, and at least one.
Estimated EstimatedOf(std::span<const double> values);
// True if the difference between two means is not significant: its 95 % confidence interval
// (Student's t) contains 0. False if either side is a single run, because its noise is unknown.
bool WithinNoise(const Estimated& a, const Estimated& b);

// A readable table with one column per case. From the second case on, a column also shows the
// difference from the first case in percent, in brackets if it is within the noise. Replays show
// mean ± standard deviation.
std::string Compare(std::span<const Metrics> runs);
// Metrics of groups of tasks, one row per case and group; empty if no run has groups. Only the
// first replay of each case is used, and a note says so.
std::string GroupTable(std::span<const Metrics> runs);

// Predicted and measured values, one row per case, quantity and method. Empty without predictions.
// Only the first replay of each case is used.
std::string ForecastTable(std::span<const Metrics> runs);

// A header line, then one row per run: metrics in SI units, empty where not reported.
std::string RunsCsv(std::span<const Metrics> runs);
// A header line, then one row per task of the reports that have records. Times are in seconds since
// the run's first submission.
std::string TasksCsv(std::span<const Report> reports);

}  // namespace carma::report
