#include "daemon/endpoints/leases.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <optional>

#include "api/lease_view.h"
#include "base/json.h"
#include "base/text.h"
#include "daemon/endpoints/parameters.h"
#include "daemon/endpoints/tasks.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Json;
using base::Result;
using base::Unit;

constexpr std::int64_t kMaxWaitS = 300;
constexpr std::size_t kMaxTail = 65'536;

// The lease of {id}, if this caller may act on it.
Result<store::StoredTask> OwnLease(const LeaseServices& services, const Call& call) {
  Result<store::StoredTask> stored = Touchable(services.store, call);
  if (!stored) return stored;
  const Result<task::TaskSpec> spec = task::SpecFromJsonText(stored->spec_json);
  if (!spec) return std::unexpected(spec.error());
  if (!spec->lease) {
    return Fail(ErrorCode::kNotFound, fmt::format("task {} is no lease", stored->record.id));
  }
  return stored;
}

// The launcher is ahead of the books by a turn.
std::string StateOf(const LeaseServices& services, const core::TaskRecord& record) {
  if (core::IsFinal(record.state)) return "ended";
  if (services.leases.Adopted(record.id)) return "adopted";
  return services.leases.Granted(record.id) ? "granted" : "waiting";
}

Result<api::LeaseView> View(const LeaseServices& services, core::TaskId id) {
  const Result<store::StoredTask> stored = services.store.Get(id);
  if (!stored) return std::unexpected(stored.error());
  const core::TaskRecord& record = stored->record;
  const Result<task::TaskSpec> spec = task::SpecFromJsonText(stored->spec_json);
  if (!spec) return std::unexpected(spec.error());
  api::LeaseView view;
  view.id = core::Number(id);
  view.state = StateOf(services, record);
  view.task_state = core::TaskStateName(record.state);
  view.user = stored->user;
  const auto process = task::ParseLeaseProcess(spec->lease.value_or(""));
  if (process) view.pid = process->process.pid;
  const bool ended = core::IsFinal(record.state);
  const core::Reason reason =
      ended ? record.reason
            : services.engine.scheduler().ReasonFor(record.id, services.clock.Now());
  view.reason = core::ReasonName(reason.code);
  view.reason_text = reason.text;
  if (core::HoldsGpus(record.state)) view.gpu_uuids = stored->gpu_uuids;
  return view;
}

Answer LeaseNow(const LeaseServices& services, core::TaskId id, int status = 200) {
  const Result<api::LeaseView> view = View(services, id);
  if (!view) return std::unexpected(view.error());
  return JsonAnswer(ToJson(*view), status);
}

// pid: of a body; absent: the one that calls. owner: whose process it has to be.
Result<task::LeaseProcess> ProcessOf(const Call& call, const std::optional<std::int64_t>& pid,
                                     std::uint32_t owner) {
  const auto asked =
      static_cast<pid_t>(pid.value_or(call.request.peer ? call.request.peer->pid : 0));
  const std::optional<task::LeaseProcess> process =
      asked > 0 ? task::FindLeaseProcess(asked) : std::nullopt;
  struct stat info {};
  const std::string folder = fmt::format("/proc/{}", asked);
  if (!process || ::stat(folder.c_str(), &info) != 0) {
    return Fail(
        ErrorCode::kConflict,
        fmt::format("there is no process {} on this machine, or in carmad's namespace", asked));
  }
  if (info.st_uid == owner || call.caller.uid == 0) return *process;
  return Fail(ErrorCode::kDenied, fmt::format("process {} belongs to another user", asked));
}

struct Asked {
  task::TaskSpec spec;
  std::string request;
};

Result<Asked> ReadAsked(const Call& call) {
  const Result<Json> json = ReadBody(call);
  if (!json) return std::unexpected(json.error());
  base::JsonReader in(*json, "");
  const Json* spec = in.Raw("spec");
  std::optional<std::int64_t> pid;
  Asked asked;
  if (in.Get("request", asked.request, 64) && !task::IsWord(asked.request))
    in.Complain("request", "1 to 64 letters, digits and _-+.");
  in.Get("pid", pid, 1, INT32_MAX);
  in.NoOthers();
  if (spec == nullptr) in.Complain("spec", "a description, as /v1/tasks takes it");
  if (in.error()) return std::unexpected(*in.error());
  Result<task::TaskSpec> read = task::SpecFromJson(*spec, "/spec");
  if (!read) return std::unexpected(read.error());
  if (read->attach || read->array_index || !read->parameters.empty()) {
    return Fail(ErrorCode::kInvalid,
                "/spec: a lease is for one process that is not started here: "
                "expected no attach, array_index or parameters");
  }
  const Result<task::LeaseProcess> process = ProcessOf(call, pid, call.caller.uid);
  if (!process) return std::unexpected(process.error());
  asked.spec = *std::move(read);
  asked.spec.lease = task::TextOf(*process);
  // Nobody here could start it again, and nothing of what it writes is seen.
  asked.spec.requeue = false;
  asked.spec.max_recoveries = 0;
  asked.spec.stdout_path = "/dev/null";
  asked.spec.stderr_path = "/dev/null";
  return asked;
}

}  // namespace

Result<Unit> MakeLease(const LeaseServices& services, const Call& call,
                       const api::Responder& reply) {
  Result<Asked> asked = ReadAsked(call);
  if (!asked) return std::unexpected(asked.error());
  const Caller& caller = call.caller;
  if (Result<Unit> may = CheckPriority(asked->spec.priority, caller); !may) return may;
  const core::SlotRules& slots = services.engine.scheduler().config().slots;
  if (Result<Unit> may = CheckSlots(asked->spec, slots, caller); !may) return may;
  const std::optional<task::LeaseProcess> process = task::ParseLeaseProcess(*asked->spec.lease);
  services.engine.Submit(
      TaskList({asked->spec}), {caller.uid, caller.gid, caller.user, "lease", asked->request},
      [services, caller, process, reply](const Result<Submitted>& done) {
        if (!done) return reply(std::unexpected(done.error()));
        if (!done->repeated) {
          LogAsked("lease_asked", {{"task", done->first}, {"pid", process->process.pid}}, caller);
          services.leases.Watch(done->first, *process);
        }
        reply(LeaseNow(services, done->first, done->repeated ? 200 : 201));
      });
  return Unit{};
}

Answer ListLeases(const LeaseServices& services, const Call&) {
  Json list = Json::array();
  for (const core::TaskId id : services.leases.Leases()) {
    const Result<api::LeaseView> view = View(services, id);
    if (view && view->state != "ended") list.push_back(ToJson(*view));
  }
  return JsonAnswer({{"leases", std::move(list)}});
}

Result<Unit> ShowLease(const LeaseServices& services, const Call& call,
                       const api::Responder& reply) {
  QueryReader in(call);
  const auto wait_s = static_cast<int>(in.Number("wait_s", 0, 0, kMaxWaitS));
  if (in.error()) return std::unexpected(*in.error());
  const Result<store::StoredTask> stored = OwnLease(services, call);
  if (!stored) return std::unexpected(stored.error());
  const core::TaskId id = stored->record.id;
  const auto answer = [services, id, reply] { reply(LeaseNow(services, id)); };
  const bool waits = StateOf(services, stored->record) == "waiting";
  if (wait_s == 0 || !waits) {
    answer();
  } else {
    services.when_changed(id, wait_s, answer);
  }
  return Unit{};
}

Answer AdoptLease(const LeaseServices& services, const Call& call) {
  const Result<store::StoredTask> stored = OwnLease(services, call);
  if (!stored) return std::unexpected(stored.error());
  std::optional<std::int64_t> pid;
  if (!call.request.body.empty()) {
    const Result<Json> json = ReadBody(call);
    if (!json) return std::unexpected(json.error());
    base::JsonReader in(*json, "");
    in.Get("pid", pid, 1, INT32_MAX);
    in.NoOthers();
    if (in.error()) return std::unexpected(*in.error());
  }
  const Result<task::LeaseProcess> process = ProcessOf(call, pid, stored->record.request->uid);
  if (!process) return std::unexpected(process.error());
  const auto environment = services.leases.AdoptLease(stored->record.id, *process);
  if (!environment) return std::unexpected(environment.error());
  LogAsked("lease_adopted", {{"task", stored->record.id}, {"pid", process->process.pid}},
           call.caller);
  return JsonAnswer({{"environment", *environment}});
}

Answer EndLease(const LeaseServices& services, const Call& call) {
  const Result<store::StoredTask> stored = OwnLease(services, call);
  if (!stored) return std::unexpected(stored.error());
  task::LeaseEnd end;
  if (!call.request.body.empty()) {
    const Result<Json> json = ReadBody(call);
    if (!json) return std::unexpected(json.error());
    base::JsonReader in(*json, "");
    in.Get("exit_code", end.exit_code, 0, 255);
    in.Get("signal", end.signal, 0, 64);
    in.Get("stderr_tail", end.stderr_tail, kMaxTail);
    in.NoOthers();
    if (in.error()) return std::unexpected(*in.error());
  }
  const core::TaskId id = stored->record.id;
  if (!core::IsFinal(stored->record.state)) {
    // Another end may have come before, and not have reached the books yet.
    const Result<Unit> ended = services.leases.EndLease(id, end);
    if (!ended && stored->record.state != core::TaskState::kRunning)
      return std::unexpected(ended.error());
    if (ended) LogAsked("lease_ended", {{"task", id}}, call.caller);
  }
  return LeaseNow(services, id);
}

}  // namespace carma::daemon
