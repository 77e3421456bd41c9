// Builds reports about the past from the store. The functions are slow, so they must be called on a
// separate thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "daemon/present/usage_sums.h"
#include "gpu/probe.h"
#include "report/html.h"
#include "store/history.h"

namespace carma::daemon {

// Limits on the number of tasks in a report. The limit is lower for a report that lists tasks,
// because its text must fit into one API response.
inline constexpr std::int64_t kMaxReportTasks = 1'000'000;
inline constexpr std::int64_t kMaxListedTasks = 100'000;

struct ReportRequest {
  std::string state_dir;
  store::History::Span span;  // the period in which the tasks were submitted
  bool listed = false;        // lists all tasks and the GPU usage over time
  base::Time now{};
  std::vector<gpu::DeviceInfo> gpus;
  std::string provenance;
  bool simulated = false;
  report::Clock clock;                       // the reader's time zone, for figures
  std::vector<store::EndedAttempt> running;  // running attempts, as of now
};

// The report as JSON (report/report.h). May take a long time. Returns kUnavailable soon after
// `wanted` becomes false, kInvalid for too many tasks, and the errors of store::History.
Result<std::string> ReportText(const ReportRequest& request, const std::atomic<bool>& wanted);
// The report as an HTML page (report/html.h). It has figures only if `request.listed` is true.
Result<std::string> ReportHtml(const ReportRequest& request, std::string_view title,
                               const std::atomic<bool>& wanted);

struct UsageRequest {
  std::string state_dir;
  core::Time from{};
  core::Time to{};
  UsageBy by;
  std::vector<store::EndedAttempt> running;  // running attempts, as of now
};
// The usage of stored and running attempts as {"usage":[…]} (api/usage_view.h). `wanted` and the
// errors are the same as for ReportText().
Result<std::string> UsageText(const UsageRequest& request, const std::atomic<bool>& wanted);

}  // namespace carma::daemon
