#include "daemon/routes.h"

#include <pwd.h>

#include <algorithm>
#include <memory>
#include <set>

#include "api/openapi.h"
#include "base/json.h"
#include "base/text.h"
#include "core/trial.h"
#include "daemon/present.h"
#include "daemon/reporting.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Json;
using base::Result;
using base::Unit;

constexpr std::size_t kMaxPage = 10'000;
constexpr int kMaxWaitS = 3600;
constexpr base::Duration kUsualHistory{std::chrono::hours(1)};
constexpr std::int64_t kUsualHistoryPoints = 60;
// Of so far back the roll-ups are read on the loop: 23 ms for eight GPUs in a build without
// optimisation.
constexpr base::Duration kHistoryReadAtOnce{std::chrono::hours(6)};
// A reading holds for so many sampling periods at most.
constexpr int kPeriodsOfAReading = 10;
constexpr std::int64_t kLastMs = core::kMaxBeginMs;

// Number in a query, or the fallback when absent.
Result<std::int64_t> QueryNumber(const api::Request& request, std::string_view key,
                                 std::int64_t fallback, std::int64_t low, std::int64_t high) {
  const std::optional<std::string> text = request.Query(key);
  if (!text) return fallback;
  const std::optional<std::int64_t> number = base::ParseInt(*text);
  if (!number || *number < low || *number > high) {
    return Fail(ErrorCode::kInvalid, "?" + std::string(key) + ": expected a whole number from " +
                                         std::to_string(low) + " to " + std::to_string(high));
  }
  return *number;
}

// "queued,running", "all", or absent: everything that is not final.
Result<std::vector<core::TaskState>> QueryStates(const api::Request& request) {
  std::vector<core::TaskState> states;
  const std::optional<std::string> text = request.Query("state");
  if (text == "all") return states;
  if (!text) {
    for (int i = 0; i < core::kTaskStateCount; ++i) {
      if (const auto state = static_cast<core::TaskState>(i); !core::IsFinal(state))
        states.push_back(state);
    }
    return states;
  }
  for (std::string_view name : base::Split(*text, ',')) {
    const std::optional<core::TaskState> state = core::ParseTaskState(name);
    if (!state)
      return Fail(ErrorCode::kInvalid,
                  "?state: '" + base::Printable(name, 40) + "' is no task state");
    states.push_back(*state);
  }
  return states;
}

Result<store::TaskFilter> QueryFilter(const api::Request& request) {
  store::TaskFilter filter;
  Result<std::vector<core::TaskState>> states = QueryStates(request);
  if (!states) return std::unexpected(states.error());
  filter.states = std::move(*states);
  filter.user = request.Query("user");
  filter.name = request.Query("name");
  const Result<std::int64_t> limit = QueryNumber(request, "limit", 100, 1, kMaxPage);
  if (!limit) return std::unexpected(limit.error());
  filter.limit = static_cast<std::size_t>(*limit);
  const Result<std::int64_t> before = QueryNumber(request, "before", 0, 0, INT64_MAX);
  if (!before) return std::unexpected(before.error());
  if (*before > 0) filter.before = static_cast<core::TaskId>(*before);
  const std::string order = request.Query("order").value_or("desc");
  if (order != "asc" && order != "desc")
    return Fail(ErrorCode::kInvalid, "?order: expected asc or desc");
  filter.newest_first = order == "desc";
  return filter;
}

// The body of POST /v1/tasks: {"tasks": [spec, ...], "common": fields of all of them}, or
// {"spec": spec, "array": [index, ...]}.
Result<std::vector<task::TaskSpec>> ReadSubmission(const std::string& body, std::size_t max_batch) {
  Result<Json> json = base::ParseJson(body);
  if (!json) return Wrap(json.error(), "body");
  base::JsonReader in(*json, "");
  const Json* tasks = in.Raw("tasks");
  const Json* spec = in.Raw("spec");
  const Json* array = in.Raw("array");
  const Json* common = in.Raw("common");
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  const bool listed = tasks != nullptr && tasks->is_array() && spec == nullptr && array == nullptr;
  const bool cloned = tasks == nullptr && spec != nullptr && common == nullptr &&
                      (array == nullptr || array->is_array());
  if (!listed && !cloned) {
    return Fail(ErrorCode::kInvalid,
                "body: expected {\"tasks\": [spec, …], \"common\": {…}} or {\"spec\": spec, "
                "\"array\": [index, …]}");
  }
  const std::size_t count = listed ? tasks->size() : array != nullptr ? array->size() : 1;
  if (count == 0 || count > max_batch) {
    return Fail(ErrorCode::kInvalid, "body: " + std::to_string(count) +
                                         " tasks in one submission, expected 1 to " +
                                         std::to_string(max_batch) + " (task.max_batch)");
  }
  std::vector<task::TaskSpec> specs;
  specs.reserve(count);
  if (listed) {
    Result<task::TaskSpec> shared;
    if (common != nullptr) shared = task::CommonFromJson(*common, "/common");
    if (!shared) return std::unexpected(shared.error());
    for (std::size_t i = 0; i < count; ++i) {
      Result<task::TaskSpec> each =
          task::SpecFromJson((*tasks)[i], "/tasks/" + std::to_string(i), *shared);
      if (!each) return std::unexpected(each.error());
      specs.push_back(std::move(*each));
    }
    return specs;
  }
  const Result<task::TaskSpec> each = task::SpecFromJson(*spec, "/spec");
  if (!each) return std::unexpected(each.error());
  specs.assign(count, *each);
  std::set<std::int64_t> seen;
  for (std::size_t i = 0; array != nullptr && i < count; ++i) {
    const Json& index = (*array)[i];
    if (!index.is_number_integer() || index < 0 || index > 1'000'000'000 ||
        !seen.insert(index.get<std::int64_t>()).second) {
      return Fail(ErrorCode::kInvalid,
                  "/array/" + std::to_string(i) + ": expected a whole number, each once");
    }
    specs[i].array_index = index.get<std::int64_t>();
  }
  return specs;
}

}  // namespace

namespace {

// Above the ordinary, a task passes those of others: not for everybody to decide.
Result<Unit> CheckPriority(std::int64_t priority, bool admin) {
  if (priority <= 0 || admin) return Unit{};
  return Fail(ErrorCode::kDenied, "only an administrator may raise a priority above 0");
}

Result<Unit> CheckPriorities(const std::vector<task::TaskSpec>& specs, bool admin) {
  for (const task::TaskSpec& spec : specs) {
    if (Result<Unit> ranked = CheckPriority(spec.priority, admin); !ranked) return ranked;
  }
  return Unit{};
}

}  // namespace

std::string UserName(std::uint32_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  char buffer[16384];
  ::getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);
  return found != nullptr ? std::string(found->pw_name) : std::to_string(uid);
}

struct Routes::Call {
  api::Request request;
  api::Responder respond;
  std::string id;    // {id} of the path
  std::string verb;  // {verb} of the path

  void Answer(const Json& json, int status = 200) {
    respond(api::Response{status, base::DumpJson(json)});
  }
  void Refuse(const base::Error& error) { respond(api::ErrorResponse(error)); }
};

enum class Needs { kNothing, kPeer, kEngine, kPeerAndEngine };

struct Routes::Entry {
  std::string_view method;
  std::string_view path;  // {id} and {verb} stand for one piece each
  Needs needs;            // kPeer: only over the Unix socket
  void (Routes::*handle)(Call&);
};

// A literal row stands before the row whose {verb} would also match it.
const Routes::Entry Routes::kTable[] = {
    {"GET", "/v1/status", Needs::kNothing, &Routes::Status},
    {"GET", "/v1/openapi.json", Needs::kNothing, &Routes::OpenApi},
    {"GET", "/metrics", Needs::kNothing, &Routes::Metrics},
    {"POST", "/v1/tasks", Needs::kPeerAndEngine, &Routes::SubmitTasks},
    {"GET", "/v1/tasks", Needs::kEngine, &Routes::ListTasks},
    {"GET", "/v1/tasks/{id}", Needs::kEngine, &Routes::ShowTask},
    {"GET", "/v1/tasks/{id}/explain", Needs::kEngine, &Routes::ExplainTask},
    {"GET", "/v1/tasks/{id}/spec", Needs::kPeerAndEngine, &Routes::ShowSpec},
    {"POST", "/v1/tasks/{id}/priority", Needs::kPeerAndEngine, &Routes::SetPriority},
    {"POST", "/v1/tasks/{id}/{verb}", Needs::kPeerAndEngine, &Routes::ChangeTask},
    {"GET", "/v1/gpus", Needs::kEngine, &Routes::ListGpus},
    {"GET", "/v1/gpus/{id}/history", Needs::kEngine, &Routes::ShowGpuHistory},
    {"POST", "/v1/gpus/{id}/drain", Needs::kPeerAndEngine, &Routes::DrainGpu},
    {"POST", "/v1/gpus/{id}/resume", Needs::kPeerAndEngine, &Routes::ResumeGpu},
    {"GET", "/v1/estimate", Needs::kEngine, &Routes::ShowKnowledge},
    {"POST", "/v1/estimate/reset", Needs::kPeerAndEngine, &Routes::ForgetCalibration},
    {"GET", "/v1/events", Needs::kEngine, &Routes::ListEvents},
    {"GET", "/v1/report", Needs::kEngine, &Routes::Report},
};

namespace {

bool Matches(std::string_view pattern, std::string_view path, std::string& id, std::string& verb) {
  const std::vector<std::string_view> wanted = base::Split(pattern, '/'),
                                      given = base::Split(path, '/');
  if (wanted.size() != given.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == "{id}") {
      id = given[i];
    } else if (wanted[i] == "{verb}") {
      verb = given[i];
    } else if (wanted[i] != given[i]) {
      return false;
    }
  }
  return true;
}

Result<core::TaskId> TaskIdOf(const std::string& text) {
  const std::optional<std::int64_t> number = base::ParseInt(text);
  if (!number || *number < 1) {
    return Fail(ErrorCode::kInvalid,
                "'" + base::Printable(text, 40) + "' is not a task id (a whole number from 1)");
  }
  return static_cast<core::TaskId>(*number);
}

}  // namespace

void Routes::Handle(api::Request request, api::Responder respond) {
  Call call{std::move(request), std::move(respond), "", ""};
  bool path_known = false;
  for (const Entry& entry : kTable) {
    if (!Matches(entry.path, call.request.path, call.id, call.verb)) continue;
    path_known = true;
    if (entry.method != call.request.method) continue;
    if (Result<Unit> admitted = Admit(call.request, entry); !admitted)
      return call.Refuse(admitted.error());
    return (this->*entry.handle)(call);
  }
  call.Refuse({path_known ? ErrorCode::kInvalid : ErrorCode::kNotFound,
               base::Printable(call.request.method, 20) + " " + base::Printable(call.request.path) +
                   (path_known ? ": another method was expected" : ": no such endpoint")});
}

Result<Unit> Routes::Admit(const api::Request& request, const Entry& entry) const {
  const bool needs_peer = entry.needs == Needs::kPeer || entry.needs == Needs::kPeerAndEngine;
  const bool needs_engine = entry.needs == Needs::kEngine || entry.needs == Needs::kPeerAndEngine;
  if (needs_peer && !request.peer) {
    return Fail(ErrorCode::kDenied, "over TCP everything is read-only; use the Unix socket");
  }
  // Without root rights every task would run as the daemon's user, whoever sent it.
  if (request.peer && services_.own_uid != 0 && request.peer->uid != services_.own_uid &&
      request.peer->uid != 0) {
    return Fail(ErrorCode::kDenied, "this carmad runs without root rights and serves only " +
                                        UserName(services_.own_uid));
  }
  if (needs_engine && services_.engine == nullptr)
    return Fail(ErrorCode::kUnavailable, services_.waiting_for);
  return Unit{};
}

bool Routes::IsAdmin(const api::Peer& peer) const {
  if (peer.uid == 0 || peer.uid == services_.own_uid) return true;
  const std::vector<std::string>& admins = services_.settings->admins;
  return std::find(admins.begin(), admins.end(), UserName(peer.uid)) != admins.end();
}

Result<store::StoredTask> Routes::Touchable(const Call& call) const {
  const Result<core::TaskId> id = TaskIdOf(call.id);
  if (!id) return std::unexpected(id.error());
  Result<store::StoredTask> stored = services_.store->Get(*id);
  if (!stored) return stored;
  if (stored->record.request.uid != call.request.peer->uid && !IsAdmin(*call.request.peer)) {
    return Fail(ErrorCode::kDenied, "task " + call.id + " belongs to " + stored->user);
  }
  return stored;
}

api::TaskView Routes::View(const store::StoredTask& stored) const {
  return Present(stored, *services_.engine, *services_.monitor, services_.engine->attribution(),
                 services_.clock->Now());
}

api::TaskView Routes::FullView(const store::StoredTask& stored) const {
  api::TaskView view = View(stored);
  if (const Result<std::optional<store::Forecast>> forecast =
          services_.store->ForecastOf(stored.record.id);
      forecast && *forecast) {
    view.estimate_remarks = (*forecast)->remarks;
  }
  return view;
}

// ---- the daemon itself ----

void Routes::Status(Call& call) {
  call.Answer(ToJson(services_.status()));
}

void Routes::OpenApi(Call& call) {
  call.respond(api::Response{200, api::OpenApiJson()});
}

void Routes::Metrics(Call& call) {
  call.respond(api::Response{200, services_.metrics(), "text/plain; version=0.0.4; charset=utf-8"});
}

// ---- tasks ----

void Routes::SubmitTasks(Call& call) {
  Result<std::vector<task::TaskSpec>> specs =
      ReadSubmission(call.request.body, services_.settings->max_batch);
  call.request.body = {};
  if (!specs) return call.Refuse(specs.error());
  const api::Peer peer = *call.request.peer;
  if (Result<Unit> ranked = CheckPriorities(*specs, IsAdmin(peer)); !ranked) {
    return call.Refuse(ranked.error());
  }
  if (call.request.Query("check") == "1") return DryRun(call, *std::move(specs));
  auto respond = std::make_shared<api::Responder>(std::move(call.respond));
  services_.engine->Submit(
      std::move(*specs), {peer.uid, peer.gid, UserName(peer.uid)},
      [respond](Result<Submitted> answer) {
        if (!answer) return (*respond)(api::ErrorResponse(answer.error()));
        const Json json = {{"first", core::Number(answer->first)}, {"count", answer->count}};
        (*respond)(api::Response{201, base::DumpJson(json)});
      });
}

// Asked as for a real submission; the answer waits for all of them.
struct Routes::DryRunning {
  std::vector<task::TaskSpec> specs;  // the first ones
  std::vector<EstimateResult> results;
  std::size_t missing = 0;
  std::size_t count = 0;  // tasks of the submission
  std::uint32_t uid = 0;
  api::Responder respond;
};

void Routes::DryRun(Call& call, std::vector<task::TaskSpec> specs) {
  constexpr std::size_t kShown = 100;
  const api::Peer peer = *call.request.peer;
  auto run = std::make_shared<DryRunning>(
      DryRunning{{}, {}, 0, specs.size(), peer.uid, std::move(call.respond)});
  specs.resize(std::min(specs.size(), kShown));
  run->results.resize(specs.size());
  run->missing = specs.size();
  run->specs = std::move(specs);
  std::vector<EstimateJob> jobs;
  jobs.reserve(run->specs.size());
  for (std::size_t i = 0; i < run->specs.size(); ++i)
    jobs.push_back({static_cast<core::TaskId>(i), run->specs[i], peer.uid, peer.gid});
  services_.desk->Ask(std::move(jobs), [this, run](std::vector<EstimateResult> results) {
    for (EstimateResult& each : results) {
      run->results[core::Number(each.id)] = std::move(each);
      --run->missing;
    }
    if (run->missing == 0) run->respond(Checked(*run));
  });
}

api::Response Routes::Checked(const DryRunning& run) const {
  const core::Scheduler& scheduler = services_.engine->scheduler();
  Json tasks = Json::array();
  for (std::size_t i = 0; i < run.specs.size(); ++i) {
    const task::TaskSpec& spec = run.specs[i];
    const std::optional<core::Estimate>& estimate = run.results[i].estimate;
    const core::Trial trial =
        core::Try(scheduler, task::ToRequest(spec, run.uid), estimate, services_.clock->Now());
    if (trial.fit == core::Fit::kNever) {
      return api::ErrorResponse(
          {ErrorCode::kConflict, "task '" + base::Printable(spec.name, 60) +
                                     "' can never run here: " + trial.reason.text});
    }
    Json task = {
        {"name", spec.name},
        {"gpus", spec.gpus},
        {"fits", trial.fit == core::Fit::kFits ? "now" : "later"},
        {"reason",
         trial.reason.code == core::ReasonCode::kNone ? "" : core::ReasonName(trial.reason.code)},
        {"reason_text", trial.reason.text},
        {"predicted_mib", nullptr},
        {"estimate_method", nullptr},
        {"estimate_remarks", run.results[i].forecast.remarks}};
    if (estimate) {
      task["predicted_mib"] = estimate->predicted_mib.value_or(estimate->peak_mib);
      task["estimate_method"] = estimate->method;
    }
    tasks.push_back(std::move(task));
  }
  return {200, base::DumpJson({{"count", run.count}, {"tasks", std::move(tasks)}})};
}

void Routes::ListTasks(Call& call) {
  Result<store::TaskFilter> filter = QueryFilter(call.request);
  if (!filter) return call.Refuse(filter.error());
  const std::size_t wanted = filter->limit;
  filter->limit = wanted + 1;  // one more tells whether there is a next page
  Result<std::vector<store::StoredTask>> rows = services_.store->List(*filter);
  if (!rows) return call.Refuse(rows.error());
  Json next = nullptr;
  if (rows->size() > wanted) {
    rows->resize(wanted);
    next = core::Number(rows->back().record.id);
  }
  Json tasks = Json::array();
  for (const store::StoredTask& stored : *rows) tasks.push_back(ToJson(View(stored)));
  call.Answer({{"tasks", std::move(tasks)}, {"next", std::move(next)}});
}

void Routes::ShowTask(Call& call) {
  const Result<core::TaskId> id = TaskIdOf(call.id);
  if (!id) return call.Refuse(id.error());
  const Result<std::int64_t> wait_s = QueryNumber(call.request, "wait_s", 0, 0, kMaxWaitS);
  if (!wait_s) return call.Refuse(wait_s.error());
  const Result<store::StoredTask> stored = services_.store->Get(*id);
  if (!stored) return call.Refuse(stored.error());
  if (*wait_s == 0 || core::IsFinal(stored->record.state))
    return call.Answer(ToJson(FullView(*stored)));
  auto respond = std::make_shared<api::Responder>(std::move(call.respond));
  services_.when_final(*id, static_cast<int>(*wait_s), [this, respond, task = *id] {
    const Result<store::StoredTask> now = services_.store->Get(task);
    if (!now) return (*respond)(api::ErrorResponse(now.error()));
    (*respond)(api::Response{200, base::DumpJson(ToJson(FullView(*now)))});
  });
}

void Routes::ExplainTask(Call& call) {
  const Result<core::TaskId> id = TaskIdOf(call.id);
  if (!id) return call.Refuse(id.error());
  const Result<store::StoredTask> stored = services_.store->Get(*id);
  if (!stored) return call.Refuse(stored.error());
  api::ExplainView view;
  view.task = FullView(*stored);
  view.policy = PolicyLine(*services_.settings);
  view.collocation = CollocationLine(*services_.settings, services_.monitor);
  if (const std::optional<core::Explanation> why =
          services_.engine->scheduler().Explain(*id, services_.clock->Now())) {
    if (why->ahead) view.ahead = *why->ahead;
    for (const core::GpuVerdict& each : why->gpus) {
      constexpr std::string_view kFits[] = {"fits", "not_now", "never"};
      api::VerdictView verdict;
      verdict.gpu = core::Number(each.gpu);
      verdict.fit = kFits[static_cast<int>(each.verdict.fit)];
      if (each.verdict.reason.code != core::ReasonCode::kNone)
        verdict.reason = core::ReasonName(each.verdict.reason.code);
      verdict.reason_text = each.verdict.reason.text;
      view.gpus.push_back(std::move(verdict));
    }
  }
  call.Answer(ToJson(view));
}

// A description holds its user's environment: for the owner and administrators only.
void Routes::ShowSpec(Call& call) {
  const Result<store::StoredTask> stored = Touchable(call);
  if (!stored) return call.Refuse(stored.error());
  call.respond(api::Response{200, stored->spec_json});
}

Engine::Done Routes::AnswerWithTask(Call& call) {
  auto respond = std::make_shared<api::Responder>(std::move(call.respond));
  const auto id = static_cast<core::TaskId>(*base::ParseInt(call.id));
  return [this, respond, id](Result<Unit> done) {
    if (!done) return (*respond)(api::ErrorResponse(done.error()));
    const Result<store::StoredTask> stored = services_.store->Get(id);
    if (!stored) return (*respond)(api::ErrorResponse(stored.error()));
    (*respond)(api::Response{200, base::DumpJson(ToJson(View(*stored)))});
  };
}

void Routes::ChangeTask(Call& call) {
  const Result<store::StoredTask> stored = Touchable(call);
  if (!stored) return call.Refuse(stored.error());
  const core::TaskRecord& record = stored->record;
  const auto conflict = [&](std::string_view cannot) {
    call.Refuse({ErrorCode::kConflict, "task " + call.id + " is " +
                                           std::string(core::TaskStateName(record.state)) + ": " +
                                           std::string(cannot)});
  };
  Engine& engine = *services_.engine;
  const bool waits = !core::IsFinal(record.state) && !core::HoldsGpus(record.state);
  if (call.verb == "cancel") {
    if (core::IsFinal(record.state)) return conflict("it has ended already");
    engine.Post(core::CancelRequested{record.id, UserName(call.request.peer->uid)},
                AnswerWithTask(call));
  } else if (call.verb == "hold") {
    if (!waits) return conflict("only a waiting task can be held");
    engine.Post(core::HoldRequested{record.id}, AnswerWithTask(call));
  } else if (call.verb == "release") {
    if (!waits) return conflict("only a waiting task can be released");
    engine.Post(core::ReleaseRequested{record.id}, AnswerWithTask(call));
  } else if (call.verb == "requeue") {
    if (record.state == core::TaskState::kStopping) return conflict("it is being stopped");
    engine.Requeue(record.id, AnswerWithTask(call));
  } else {
    call.Refuse(
        {ErrorCode::kNotFound, "'" + base::Printable(call.verb, 40) +
                                   "': expected cancel, hold, release, requeue or priority"});
  }
}

void Routes::SetPriority(Call& call) {
  const Result<store::StoredTask> stored = Touchable(call);
  if (!stored) return call.Refuse(stored.error());
  const Result<Json> json = base::ParseJson(call.request.body);
  if (!json) return call.Refuse({json.error().code, "body: " + json.error().message});
  std::int64_t priority = 0;
  base::JsonReader in(*json, "");
  if (!in.Get("priority", priority, -1'000'000, 1'000'000))
    in.Complain("priority", "a whole number");
  in.NoOthers();
  if (in.error()) return call.Refuse(*in.error());
  if (Result<Unit> ranked = CheckPriority(priority, IsAdmin(*call.request.peer)); !ranked) {
    return call.Refuse(ranked.error());
  }
  services_.engine->Post(core::PriorityChanged{stored->record.id, priority}, AnswerWithTask(call));
}

// ---- GPUs ----

void Routes::ListGpus(Call& call) {
  Json gpus = Json::array();
  for (const api::GpuView& view :
       PresentGpus(*services_.engine, *services_.monitor, services_.clock->Now())) {
    gpus.push_back(ToJson(view));
  }
  call.Answer({{"gpus", std::move(gpus)}});
}

Result<GpuHistoryRequest> Routes::GpuHistoryRequestOf(const Call& call, base::Time now) const {
  const Result<core::GpuIndex> gpu = GpuOf(call);
  if (!gpu) return std::unexpected(gpu.error());
  const Result<std::int64_t> to_ms =
      QueryNumber(call.request, "to_ms", base::ToMs(now), 0, kLastMs);
  if (!to_ms) return std::unexpected(to_ms.error());
  const std::int64_t hour_before = std::max<std::int64_t>(0, *to_ms - kUsualHistory.count());
  const Result<std::int64_t> from_ms =
      QueryNumber(call.request, "from_ms", hour_before, 0, kLastMs);
  if (!from_ms) return std::unexpected(from_ms.error());
  const Result<std::int64_t> points =
      QueryNumber(call.request, "points", kUsualHistoryPoints, 1, kMostHistoryPoints);
  if (!points) return std::unexpected(points.error());
  if (*from_ms >= *to_ms) {
    return Fail(ErrorCode::kInvalid,
                "?from_ms: expected a time before to_ms, which is " + std::to_string(*to_ms));
  }
  GpuHistoryRequest request;
  request.from = base::FromMs(*from_ms);
  request.to = base::FromMs(*to_ms);
  request.points = static_cast<int>(*points);
  const gpu::DeviceInfo& device = services_.monitor->devices().at(core::Number(*gpu));
  request.gpu.index = core::Number(*gpu);
  request.gpu.uuid = device.uuid;
  request.gpu.name = device.name;
  request.readings = services_.monitor->History(*gpu, request.from, request.to);
  request.longest = kPeriodsOfAReading * services_.settings->sample_period;
  return request;
}

void Routes::ShowGpuHistory(Call& call) {
  const base::Time now = services_.clock->Now();
  Result<GpuHistoryRequest> request = GpuHistoryRequestOf(call, now);
  if (!request) return call.Refuse(request.error());
  if (request->from >= now - kHistoryReadAtOnce) {
    const Result<std::vector<store::GpuUsage>> rows =
        services_.store->Usage(request->from, request->to);
    if (!rows) return call.Refuse(rows.error());
    return call.Answer(ToJson(GpuHistory(*request, *rows)));
  }
  auto respond = std::make_shared<api::Responder>(std::move(call.respond));
  const Result<Unit> begun = services_.answer_later(
      [request = *std::move(request),
       folder = services_.settings->state_dir](const std::atomic<bool>& wanted) {
        Result<std::string> text = GpuHistoryText(request, folder, wanted);
        return text ? api::Response{.body = *std::move(text)} : api::ErrorResponse(text.error());
      },
      [respond](api::Response response) { (*respond)(std::move(response)); });
  if (!begun) (*respond)(api::ErrorResponse(begun.error()));
}

Result<core::GpuIndex> Routes::ClosableGpu(const Call& call) const {
  if (!IsAdmin(*call.request.peer))
    return Fail(ErrorCode::kDenied, "only an administrator may close and open GPUs");
  return GpuOf(call);
}

Result<core::GpuIndex> Routes::GpuOf(const Call& call) const {
  if (const std::optional<core::GpuIndex> gpu = services_.engine->GpuByUuid(call.id)) return *gpu;
  const std::optional<std::int64_t> number = base::ParseInt(call.id);
  const std::size_t count = services_.engine->scheduler().GpuInfos().size();
  if (!number || *number < 0 || *number >= static_cast<std::int64_t>(count)) {
    return Fail(ErrorCode::kNotFound, "GPU '" + base::Printable(call.id, 60) +
                                          "': expected a UUID or an index below " +
                                          std::to_string(count));
  }
  return static_cast<core::GpuIndex>(*number);
}

Engine::Done Routes::AnswerWithGpu(Call& call, core::GpuIndex gpu) {
  auto respond = std::make_shared<api::Responder>(std::move(call.respond));
  return [this, respond, gpu](Result<Unit> done) {
    if (!done) return (*respond)(api::ErrorResponse(done.error()));
    const std::vector<api::GpuView> views =
        PresentGpus(*services_.engine, *services_.monitor, services_.clock->Now());
    (*respond)(api::Response{200, base::DumpJson(ToJson(views.at(core::Number(gpu))))});
  };
}

void Routes::DrainGpu(Call& call) {
  const Result<core::GpuIndex> gpu = ClosableGpu(call);
  if (!gpu) return call.Refuse(gpu.error());
  std::string why;
  if (!call.request.body.empty()) {
    const Result<Json> json = base::ParseJson(call.request.body);
    if (!json) return call.Refuse({json.error().code, "body: " + json.error().message});
    base::JsonReader in(*json, "");
    in.Get("reason", why, 500);
    in.NoOthers();
    if (in.error()) return call.Refuse(*in.error());
  }
  const std::string who = "drained by " + UserName(call.request.peer->uid);
  services_.engine->Drain({*gpu, why.empty() ? who : who + ": " + base::Printable(why, 500)},
                          AnswerWithGpu(call, *gpu));
}

void Routes::ResumeGpu(Call& call) {
  const Result<core::GpuIndex> gpu = ClosableGpu(call);
  if (!gpu) return call.Refuse(gpu.error());
  services_.engine->Resume(
      {*gpu}, [this, gpu = *gpu, answer = AnswerWithGpu(call, *gpu)](Result<Unit> done) {
        if (done) services_.monitor->Acknowledge(gpu);
        answer(std::move(done));
      });
}

// ---- estimates ----

void Routes::ShowKnowledge(Call& call) {
  const EstimateRules& rules = services_.desk->rules();
  const std::string type = call.request.Query("gpu_type").value_or(rules.gpu_type);
  api::KnowledgeView view;
  view.method = rules.method;
  view.coverage = rules.coverage;
  view.gpu_type = rules.gpu_type;
  view.gpu_mib = rules.gpu_mib;
  view.learns = rules.history != nullptr;
  if (view.learns) {
    const estimate::Site site = rules.history->SiteFor(type);
    view.taught_by = site.taught_by;
    view.tasks = static_cast<std::int64_t>(site.tasks);
    view.context_shift_mib = site.context_shift_mib;
    view.ratios = site.ratios;
    for (const task::Observation& run :
         rules.history->OfSignature(call.request.Query("signature").value_or("")))
      view.runs.push_back(Present(run));
    for (const task::Observation& run :
         rules.history->OfKin(call.request.Query("kin").value_or("")))
      view.kin_runs.push_back(Present(run));
  }
  call.Answer(ToJson(view));
}

void Routes::ForgetCalibration(Call& call) {
  if (!IsAdmin(*call.request.peer))
    return call.Refuse({ErrorCode::kDenied, "only an administrator may reset the calibration"});
  auto respond = std::make_shared<api::Responder>(std::move(call.respond));
  services_.engine->ForgetCalibration([respond](Result<Unit> done) {
    if (!done) return (*respond)(api::ErrorResponse(done.error()));
    (*respond)(api::Response{200, "{\"reset\":true}"});
  });
}

// ---- the past ----

void Routes::ListEvents(Call& call) {
  std::optional<core::TaskId> task;
  if (const std::optional<std::string> text = call.request.Query("task")) {
    const Result<core::TaskId> id = TaskIdOf(*text);
    if (!id) return call.Refuse(id.error());
    task = *id;
  }
  std::optional<std::int64_t> after;  // absent: the newest ones
  if (call.request.Query("after")) {
    const Result<std::int64_t> given = QueryNumber(call.request, "after", 0, 0, INT64_MAX);
    if (!given) return call.Refuse(given.error());
    after = *given;
  }
  const Result<std::int64_t> limit = QueryNumber(call.request, "limit", 100, 1, kMaxPage);
  if (!limit) return call.Refuse(limit.error());
  const Result<std::vector<store::StoredEvent>> rows =
      services_.store->Events(task, after, static_cast<std::size_t>(*limit));
  if (!rows) return call.Refuse(rows.error());
  Json events = Json::array();
  for (const store::StoredEvent& event : *rows) events.push_back(ToJson(Present(event)));
  call.Answer({{"events", std::move(events)}});
}

// The run as the books tell it: tasks submitted in the span, their events, and the use of the GPUs
// meanwhile. Made on a thread of its own: the books of a year take seconds to read.
void Routes::Report(Call& call) {
  Result<ReportRequest> request = ReportRequestOf(call.request);
  if (!request) return call.Refuse(request.error());
  services_.close_usage();
  auto respond = std::make_shared<api::Responder>(std::move(call.respond));
  const Result<Unit> begun = services_.answer_later(
      [request = *std::move(request)](const std::atomic<bool>& wanted) {
        Result<std::string> text = ReportText(request, wanted);
        return text ? api::Response{.body = *std::move(text)} : api::ErrorResponse(text.error());
      },
      [respond](api::Response response) { (*respond)(std::move(response)); });
  if (!begun) (*respond)(api::ErrorResponse(begun.error()));
}

Result<ReportRequest> Routes::ReportRequestOf(const api::Request& from) const {
  ReportRequest request;
  const Result<std::int64_t> after_ms = QueryNumber(from, "after_ms", 0, 0, INT64_MAX);
  if (!after_ms) return std::unexpected(after_ms.error());
  const Result<std::int64_t> until_ms = QueryNumber(from, "until_ms", INT64_MAX, 0, INT64_MAX);
  if (!until_ms) return std::unexpected(until_ms.error());
  const Result<std::int64_t> last = QueryNumber(from, "last", 0, 0, kMaxReportTasks);
  if (!last) return std::unexpected(last.error());
  const Result<std::int64_t> listed = QueryNumber(from, "run", 0, 0, 1);
  if (!listed) return std::unexpected(listed.error());
  request.state_dir = services_.settings->state_dir;
  request.span.submitted_from = base::FromMs(*after_ms);
  request.span.submitted_to = base::FromMs(*until_ms);
  if (*last > 0) request.span.newest = *last;
  request.listed = *listed == 1;
  request.now = services_.clock->Now();
  for (const gpu::DeviceInfo& device : services_.monitor->devices()) {
    request.gpus.push_back({device.uuid, "GPU " + std::to_string(request.gpus.size()), device.name,
                            device.total_mib - device.reserved_mib});
  }
  const api::StatusView status = services_.status();
  request.provenance =
      "carmad " + status.version + ": " + status.policy + "; " + status.collocation;
  request.simulated = !services_.settings->simgpu_state.empty();
  return request;
}

}  // namespace carma::daemon
