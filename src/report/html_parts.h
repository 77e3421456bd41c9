// The sections of a report's page, and helpers for writing them.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/html.h"
#include "report/report.h"

namespace carma::report {

// Widths of drawings when one, two or three are side by side on the page.
inline constexpr double kWhole = 1190, kHalf = 590, kThird = 385;

// Appends formatted HTML.
template <class... Args>
void Put(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

// The displayed name of a run or case.
std::string NameOf(const std::string& label);
// An empty caption is omitted.
void PutFigure(std::string& out, std::string_view caption, const std::string& drawing);
// A 22 x 11 symbol for a figure's legend.
std::string Swatch(std::string_view shape);

// The cases with at least one record, in order, each with its records.
using Recorded = std::vector<std::pair<std::string, std::vector<const RunRecord*>>>;
// The result points into the reports. Each report without a label is a separate case.
Recorded RecordsOf(std::span<const Report> reports);

// Writes a section with a table, or nothing if there are no rows. rows, notes: HTML; the notes go
// below the table. The column "run" has its own class, so it can be hidden if there is only one
// run.
void PutTable(std::string& out, std::string_view heading,
              std::initializer_list<std::string_view> titles, const std::string& rows,
              std::string_view notes = "");

// ---- html_comparison.cc: figures that compare cases ----

// One figure per metric, with a bar for each case.
void PutComparison(std::string& out, const std::vector<Case>& cases);
// The distributions of task times, with a line for each case.
void PutDistributions(std::string& out, const Recorded& cases);

// ---- html_metrics.cc: tables of metrics ----

// Compares all cases with the first.
void PutMetrics(std::string& out, const std::vector<Case>& cases);
// Tables by task group, by user and by prediction. A table without data is omitted.
void PutGroups(std::string& out, const std::vector<Case>& cases);
void PutUsers(std::string& out, const std::vector<Case>& cases);
void PutForecasts(std::string& out, const std::vector<Case>& cases);

// ---- html_tasks.cc: results of tasks ----

// The reasons why tasks waited. Writes nothing if no task waited.
void PutWaits(std::string& out, const Recorded& cases);
// The reasons why the head of the queue waited, longest wait first.
void PutLineWaits(std::string& out, const Recorded& cases);
// Tasks that did not succeed, and why.
void PutFailures(std::string& out, const Recorded& cases);

// ---- html_timelines.cc: figures over time ----

// Maximum number of runs in the timelines. They show the first recorded run of each case.
inline constexpr std::size_t kMaxDrawnRuns = 6;

// clock: the clock of the axes if one run is drawn. If it is empty, the axes begin at 0.
void PutTimelines(std::string& out, const Recorded& cases, const std::optional<Clock>& clock);
// Draws only the memory, activity and power of the GPUs.
void PutGpus(std::string& out, const RunRecord& run, Clock clock);

}  // namespace carma::report
