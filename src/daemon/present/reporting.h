// Reports of what happened, from the books: long work for a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "daemon/present/usage_sums.h"
#include "report/html.h"
#include "store/history.h"

namespace carma::daemon {

// Most tasks of one report, and of one that lists them: its text must fit an answer of the API.
inline constexpr std::int64_t kMaxReportTasks = 1'000'000;
inline constexpr std::int64_t kMaxListedTasks = 100'000;

struct ReportGpu {
  std::string uuid;
  std::string name;  // as people know it: "GPU 0"
  std::string type;
  std::int64_t usable_mib = 0;
};

struct ReportRequest {
  std::string state_dir;
  store::History::Span span;  // of the submissions
  bool listed = false;        // with the record: every task and the GPUs over time
  base::Time now{};
  std::vector<ReportGpu> gpus;
  std::string provenance;
  bool simulated = false;
  report::Clock clock;                       // of whoever looks at figures
  std::vector<store::EndedAttempt> running;  // by now
};

// The report as JSON text (report/report.h). Reads the books for as long as that takes; gives up
// soon after `wanted` has become false, with kUnavailable. Errors: kInvalid for too many tasks;
// those of store::History.
base::Result<std::string> ReportText(const ReportRequest& request, const std::atomic<bool>& wanted);
// The same as a page to look at (report/html.h); `request.listed`, or there are no figures.
base::Result<std::string> ReportHtml(const ReportRequest& request, std::string_view title,
                                     const std::atomic<bool>& wanted);

struct UsageRequest {
  std::string state_dir;
  core::Time from{};
  core::Time to{};
  UsageBy by;
  std::vector<store::EndedAttempt> running;  // by now
};
// {"usage":[…]} (api/usage_view.h): the attempts of the books and those that run. Errors and
// `wanted` as above.
base::Result<std::string> UsageText(const UsageRequest& request, const std::atomic<bool>& wanted);

}  // namespace carma::daemon
