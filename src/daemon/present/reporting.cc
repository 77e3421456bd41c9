#include "daemon/present/reporting.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/http.h"
#include "base/json.h"
#include "base/try.h"
#include "report/from_store.h"
#include "report/report.h"

namespace carma::daemon {

namespace {

constexpr std::size_t kMostPoints = 4'000;  // points per GPU; more than any figure can show

Result<Unit> CheckSize(store::History& history, const ReportRequest& request) {
  const std::int64_t count = CARMA_TRY(history.CountTasks(request.span));
  const std::int64_t most = request.listed ? kMaxListedTasks : kMaxReportTasks;
  if (count <= most) return Unit{};
  return Invalid(
      "a report can {} at most {} tasks, but this span contains {}; choose a shorter span",
      request.listed ? "list" : "cover", most, count);
}

// Adds tasks, their events and GPU usage to the run.
Result<Unit> Fill(store::History& history, const ReportRequest& request,
                  const std::atomic<bool>& wanted, report::StoreRun& run) {
  const auto add = [&](const auto& row) {
    run.Add(row);
    return wanted.load();
  };
  std::optional<core::TaskId> first, last;
  CARMA_TRY(history.Tasks(request.span, [&](const store::StoredTask& task) {
    if (!first) first = task.record.id;
    last = task.record.id;
    return add(task);
  }));
  if (!first) return Unit{};
  CARMA_TRY(history.Events(*first, *last, add));
  CARMA_TRY(history.Attempts(run.from(), base::Time::max(), add));
  for (const store::EndedAttempt& attempt : request.running) run.Add(attempt);
  CARMA_TRY(history.Usage(run.from(), run.to(), add));
  return history.LineWaits(run.from(), run.to(), add);
}

Result<report::Report> ReportOf(const ReportRequest& request, const std::atomic<bool>& wanted) {
  const std::unique_ptr<store::History> history =
      CARMA_TRY(store::History::Open(request.state_dir));
  CARMA_TRY(CheckSize(*history, request));
  report::StoreRun run(request.now);
  for (std::size_t i = 0; i < request.gpus.size(); ++i) {
    const gpu::DeviceInfo& gpu = request.gpus[i];
    run.NameGpu(gpu.uuid, fmt::format("GPU {}", i), gpu.name, gpu.total_mib - gpu.reserved_mib);
  }
  CARMA_TRY(Fill(*history, request, wanted, run));
  if (!wanted) return Unavailable("carmad is stopping");
  report::RunRecord record = run.Finish();
  record.provenance = request.provenance;
  record.simulated = request.simulated;
  report::Report report = report::MakeReport(std::move(record));
  if (request.listed) {
    report::Condense(*report.run, kMostPoints);
  } else {
    report.run.reset();
  }
  return report;
}

}  // namespace

Result<std::string> ReportText(const ReportRequest& request, const std::atomic<bool>& wanted) {
  const report::Report report = CARMA_TRY(ReportOf(request, wanted));
  std::string text = report::ToJsonText(report);
  if (text.size() > api::kMaxBodyBytes) {
    return Invalid("the report is {} MiB long, but the limit is {} MiB; choose a shorter span",
                   text.size() >> 20, api::kMaxBodyBytes >> 20);
  }
  return text;
}

Result<std::string> UsageText(const UsageRequest& request, const std::atomic<bool>& wanted) {
  const std::unique_ptr<store::History> history =
      CARMA_TRY(store::History::Open(request.state_dir));
  UsageSums sums(request.by, request.from, request.to);
  std::optional<core::Time> first;
  const auto add = [&](const store::EndedAttempt& attempt) {
    first = std::min(first.value_or(attempt.taken.from), attempt.taken.from);
    sums.Add(attempt);
    return wanted.load();
  };
  CARMA_TRY(history->Attempts(request.from, request.to, add));
  for (const store::EndedAttempt& each : request.running) add(each);
  if (first) {
    CARMA_TRY(history->Usage(std::max(*first, request.from), request.to,
                             [&](const store::GpuUsage& usage) {
                               sums.Add(usage);
                               return wanted.load();
                             }));
  }
  if (!wanted) return Unavailable("carmad is stopping");
  base::Json rows = base::Json::array();
  for (const api::UsageView& row : sums.Rows()) rows.push_back(api::ToJson(row));
  return base::DumpJson({{"usage", std::move(rows)}});
}

Result<std::string> ReportHtml(const ReportRequest& request, std::string_view title,
                               const std::atomic<bool>& wanted) {
  const report::Report report = CARMA_TRY(ReportOf(request, wanted));
  return report::Html({&report, 1}, title, request.clock);
}

}  // namespace carma::daemon
