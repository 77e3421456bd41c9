// Formats the state of the GPUs and the daemon as text.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gpu_view.h"
#include "api/status_view.h"
#include "cli/calls.h"
#include "cli/terminal.h"

namespace carma::cli {

// "42%"; "-" if unknown.
std::string Percent(const std::optional<double>& fraction);
// The GPU's product name, with the MIG profile if it is a MIG instance.
std::string GpuName(const api::GpuView& gpu);
// Why the GPU is closed or down, and whether a rule closed it; empty if it is open.
std::string TroubleText(const api::GpuView& gpu);
// True if the GPU cannot be used.
bool IsDown(const api::GpuView& gpu);
// True if the GPU accepts no tasks, even though it may have free memory.
bool IsClosed(const api::GpuView& gpu);
// The number of tasks in these states: "queued" …
std::int64_t CountOf(const api::StatusView& status, std::initializer_list<std::string_view> states);
// The number of tasks that hold GPUs.
std::int64_t RunningTasks(const api::StatusView& status);
// Memory promised to tasks, and their claims (docs/server/policies.md) if those are larger:
// "9.0G promised of 12.0G claimed".
std::string PromisedText(std::int64_t promised_mib, std::int64_t claimed_mib);
// The GPU's next reservation: "reserved for ada until 2026-03-01 18:00", "reserved for ada from
// 2026-03-02 09:00"; empty if there is none.
std::string ReservedText(const std::vector<api::GpuView::Reserved>& reserved);
// now_ms: the time on the daemon's clock.
std::string GpuDetails(const api::GpuView& gpu, std::int64_t now_ms, const Screen& screen);
std::string GpuTable(const std::vector<api::GpuView>& gpus, const Screen& screen);
// The column at which the values in StatusText() begin.
inline constexpr std::size_t kStatusIndent = 11;
// Facts about the daemon, with any problems at the end.
std::string StatusText(const api::StatusView& status);
// One line for each task of a dry run, or for each group of identical tasks.
std::string CheckText(const std::vector<CheckedTask>& tasks, std::size_t count);

// ---- the history of GPUs, for `carma gpus --history` ----

// The requested period, [from_ms, to_ms), divided into at most `points` equal parts.
struct HistorySpan {
  std::int64_t from_ms = 0;
  std::int64_t to_ms = 0;
  int points = 60;
  std::int64_t WidthMs() const { return (to_ms - from_ms + points - 1) / points; }
};

// Number of characters that the label and the summary take up in each line.
inline constexpr int kHistoryMargin = 20;

// "From … to …, 1:00 per character".
std::string HistoryTitle(const HistorySpan& span);
// One line of small bars for each kind of value, with one character per point. total_mib: the
// memory at which a bar is full.
std::string HistoryBars(const api::GpuHistoryView& gpu, std::int64_t total_mib,
                        const HistorySpan& span);
// One row for each GPU and span. Unknown values are empty.
std::string HistoryCsv(const std::vector<api::GpuHistoryView>& gpus);

}  // namespace carma::cli
