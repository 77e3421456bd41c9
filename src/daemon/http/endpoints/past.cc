#include "daemon/http/endpoints/handlers.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/host.h"
#include "base/json.h"
#include "base/try.h"
#include "core/values/reason_line.h"
#include "daemon/http/endpoints/parameters.h"
#include "daemon/http/endpoints/tasks.h"
#include "daemon/present/present.h"
#include "daemon/present/reporting.h"

namespace carma::daemon {
namespace {

using base::Json;

Result<ReportRequest> ReadRequest(const SharedServices& services, const Call& call) {
  ReportRequest request;
  QueryReader in(call);
  request.span.submitted_from = base::FromMs(in.Number("after_ms", 0, 0, INT64_MAX));
  request.span.submitted_to = base::FromMs(in.Number("until_ms", INT64_MAX, 0, INT64_MAX));
  if (const std::int64_t last = in.Number("last", 0, 0, kMaxReportTasks); last > 0)
    request.span.newest = last;
  request.listed = in.Number("run", 0, 0, 1) == 1;
  request.now = services->clock.Now();
  request.clock = in.Clock(std::min(request.span.submitted_to, request.now));
  if (in.error()) return std::unexpected(*in.error());
  request.state_dir = services->settings.state_dir;
  request.gpus = services->monitor.devices();
  const api::StatusView status = services->status();
  request.provenance =
      fmt::format("carmad {}: {}; {}", status.version, status.policy, status.collocation);
  request.simulated = !services->settings.simgpu_state.empty();
  request.running = services->engine.RunningAttempts();
  return request;
}

// The event of an array's submission. The store keeps it only for the array's first task. Empty if
// `id` is that first task or does not belong to an array.
Result<std::vector<store::StoredEvent>> ArraySubmission(store::Store& store, core::TaskId id) {
  const store::StoredTask task = CARMA_TRY(store.Get(id));
  const bool member = task.record.request->array && *task.record.request->array != id;
  if (!member) return std::vector<store::StoredEvent>{};
  return store.Events(*task.record.request->array, 0, 1);
}

// The event as shown to the caller, without the error messages of other users' tasks.
api::EventView EventFor(const SharedServices& services, const Caller& caller,
                        const store::StoredEvent& event) {
  api::EventView view = Present(event);
  const bool notice = event.kind == store::EventKind::kNotice;  // "end to TARGET: error"
  if ((event.kind != store::EventKind::kState && !notice) || !event.task || caller.admin)
    return view;
  std::string shown =
      notice ? event.text.substr(0, event.text.find(": ")) : core::PublicLine(event.text);
  if (shown == event.text) return view;
  const Result<std::optional<store::TaskOwner>> owner = services->store.OwnerOf(*event.task);
  if (!owner || !*owner || !SeesErrors(caller, **owner)) view.text = std::move(shown);
  return view;
}

}  // namespace

Answer ListEvents(const SharedServices& services, const Call& call) {
  std::optional<core::TaskId> task;
  if (const std::optional<std::string> text = call.request.Query("task"))
    task = CARMA_TRY(TaskIdOf(*text));
  QueryReader in(call);
  std::optional<std::int64_t> after;  // empty for the newest events
  if (call.request.Query("after")) after = in.Number("after", 0, 0, INT64_MAX);
  const std::int64_t limit = in.Number("limit", 100, 1, kMaxPage);
  if (in.error()) return std::unexpected(*in.error());
  const auto most = static_cast<std::size_t>(limit);
  const std::vector<store::StoredEvent> rows = CARMA_TRY(services->store.Events(task, after, most));
  Json events = Json::array();
  if (task && after.value_or(0) == 0 && rows.size() < most) {
    const auto submission = CARMA_TRY(ArraySubmission(services->store, *task));
    for (const store::StoredEvent& event : submission) events.push_back(ToJson(Present(event)));
  }
  for (const store::StoredEvent& event : rows)
    events.push_back(ToJson(EventFor(services, call.caller, event)));
  return JsonAnswer({{"events", std::move(events)}});
}

Result<Unit> MakeReport(const SharedServices& services, const Call& call,
                        const api::Responder& reply) {
  ReportRequest request = CARMA_TRY(ReadRequest(services, call));
  services->close_usage();
  return services->answer_later(
      [request = std::move(request)](const std::atomic<bool>& wanted) {
        return TextAnswer(ReportText(request, wanted));
      },
      reply);
}

Result<Unit> DrawReport(const SharedServices& services, const Call& call,
                        const api::Responder& reply) {
  ReportRequest request = CARMA_TRY(ReadRequest(services, call));
  request.listed = true;
  services->close_usage();
  const std::string title = "CARMA report of " + base::HostName();
  return services->answer_later(
      [request = std::move(request), title](const std::atomic<bool>& wanted) {
        return ReportPage(ReportHtml(request, title, wanted));
      },
      reply);
}

Result<Unit> TellUsage(const SharedServices& services, const Call& call,
                       const api::Responder& reply) {
  UsageRequest request;
  QueryReader in(call);
  request.from = base::FromMs(in.Number("after_ms", 0, 0, INT64_MAX));
  request.to = base::FromMs(in.Number("until_ms", INT64_MAX, 0, INT64_MAX));
  if (in.error()) return std::unexpected(*in.error());
  request.by = CARMA_TRY(ParseUsageBy(call.request.Query("by").value_or("user")));
  request.state_dir = services->settings.state_dir;
  request.running = services->engine.RunningAttempts();
  services->close_usage();
  return services->answer_later(
      [request = std::move(request)](const std::atomic<bool>& wanted) {
        return TextAnswer(UsageText(request, wanted));
      },
      reply);
}

}  // namespace carma::daemon
