#include "daemon/http/endpoints/handlers.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <set>

#include "api/lease_view.h"
#include "base/fields_json.h"
#include "base/json.h"
#include "base/try.h"
#include "daemon/http/endpoints/parameters.h"
#include "daemon/http/endpoints/tasks.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {
namespace {

using base::Json;

constexpr std::int64_t kMaxLeaseWaitS = 300;
constexpr std::size_t kMaxTail = 65'536;

// Finds the lease {id} if the caller may change it.
Result<store::StoredTask> OwnLease(const SharedServices& services, const Call& call) {
  Result<store::StoredTask> stored = Touchable(services->store, call);
  if (!stored || task::LeaseSpecIn(stored->spec_json)) return stored;
  return NotFound("task {} is not a lease", stored->record.id);
}

// The state of a lease. The launcher may be ahead of the core, because it drops a lease before the
// core has processed the lease's end.
std::string StateOf(const SharedServices& services, const core::TaskRecord& record) {
  if (core::IsFinal(record.state)) return "ended";
  const bool ran =
      record.state == core::TaskState::kRunning || record.state == core::TaskState::kStopping;
  if (ran || services->leases->Adopted(record.id)) return "adopted";
  return services->leases->Granted(record.id) ? "granted" : "waiting";
}

const char* OutcomeOf(const core::TaskRecord& record) {
  if (record.attempt->number == 0) return "given_up";
  return record.attempt->started ? "ran" : "unused";
}

Result<api::LeaseView> View(const SharedServices& services, core::TaskId id) {
  const store::StoredTask stored = CARMA_TRY(services->store.Get(id));
  const core::TaskRecord& record = stored.record;
  const task::TaskSpec spec = CARMA_TRY(task::SpecFromJsonText(stored.spec_json));
  api::LeaseView view;
  view.id = core::Number(id);
  view.state = StateOf(services, record);
  view.task_state = core::TaskStateName(record.state);
  view.user = stored.user;
  const auto process = task::ParseLeaseProcess(spec.lease.value_or(""));
  if (process) view.pid = process->process.pid;
  if (const auto key = task::ParseLeaseKey(spec.lease_key.value_or(""))) {
    view.cluster = key->cluster;
    view.job = key->job;
    view.step = key->step;
    view.restart = key->restart;
  }
  const bool ended = core::IsFinal(record.state);
  if (ended && spec.lease_key) {
    const bool returns = CARMA_TRY(services->store.JobReturns(id));
    const bool holds = !services->holds_job || services->holds_job(id);
    if (returns && holds) view.follows = "requeue";
  }
  if (ended) view.outcome = OutcomeOf(record);
  view.outputs = services->leases->Outputs(id);
  view.warnings = SubmitWarnings(services->engine, TaskList({spec}));
  const core::Reason reason =
      ended ? record.reason
            : services->engine.scheduler().ReasonFor(record.id, services->clock.Now());
  view.reason = core::ReasonName(reason.code);
  view.reason_text = reason.text;
  if (core::HoldsGpus(record.state)) view.gpu_uuids = stored.gpu_uuids;
  return view;
}

Answer LeaseNow(const SharedServices& services, core::TaskId id, int status = 200) {
  const api::LeaseView view = CARMA_TRY(View(services, id));
  return JsonAnswer(ToJson(view), status);
}

// pid: the pid in the body, or empty for the calling process. owner: the user that the process must
// run as.
Result<task::LeaseProcess> ProcessOf(const Call& call, const std::optional<std::int64_t>& pid,
                                     std::uint32_t owner) {
  const auto asked =
      static_cast<pid_t>(pid.value_or(call.request.peer ? call.request.peer->pid : 0));
  const std::optional<task::LeaseProcess> process =
      asked > 0 ? task::FindLeaseProcess(asked) : std::nullopt;
  struct stat info {};
  const std::string folder = fmt::format("/proc/{}", asked);
  if (!process || ::stat(folder.c_str(), &info) != 0)
    return Conflict("process {} does not exist or is not visible in carmad's PID namespace", asked);
  if (info.st_uid == owner || call.caller.uid == 0) return *process;
  return Denied("process {} belongs to another user", asked);
}

struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  static void VisitFields(auto& field, auto& owner) {
    field("uid", owner.uid, "", {.required = true});
    field("gid", owner.gid, "", {.required = true});
  }
};

struct LeaseAsked {
  task::TaskSpec spec;
  std::string request;
  task::LeaseProcess process;
  Owner owner;
  std::optional<task::LeaseKey> key;
};

// Reads the fields that root or the daemon's user adds when requesting a lease for another user's
// process.
Result<Unit> ReadForOthers(const Call& call, base::JsonReader& in, LeaseAsked& asked) {
  const Json* key = in.Raw("key");
  const Json* owner = in.Raw("owner");
  if (key == nullptr && owner == nullptr) return Unit{};
  if (call.caller.uid != 0 && call.caller.uid != ::geteuid())
    return Denied(
        "key and owner: only root and carmad's own user may request a lease for another user");
  if (key == nullptr || owner == nullptr)
    return Invalid("body: expected both key and owner, or neither");
  auto of = CARMA_TRY(base::FieldsFromJson<Owner>(*owner, "/owner", base::Unknown::kRefused));
  asked.owner = of;
  auto read =
      CARMA_TRY(base::FieldsFromJson<task::LeaseKey>(*key, "/key", base::Unknown::kRefused));
  if (!task::IsWord(read.cluster) || !task::IsWord(read.step))
    return Invalid(
        "/key: expected cluster and step of 1 to 64 letters, digits or any of '_', '-', '+', '.'");
  asked.key = std::move(read);
  return Unit{};
}

// Uses the key and the process as the request's name. The process is included because job numbers
// may be reused.
void GiveKey(LeaseAsked& asked) {
  const std::string key = task::TextOf(*asked.key);
  asked.request = fmt::format("lease {} {}", key, task::TextOf(asked.process));
  asked.spec.lease_key = key;
  if (!asked.spec.comment) {
    asked.spec.comment = fmt::format("job {} of cluster {}, step {}", asked.key->job,
                                     asked.key->cluster, asked.key->step);
  }
}

Result<LeaseAsked> ReadAsked(const SharedServices& services, const Call& call) {
  const Json json = CARMA_TRY(ReadBody(call));
  base::JsonReader in(json, "");
  const Json* spec = in.Raw("spec");
  std::optional<std::int64_t> pid;
  LeaseAsked asked;
  asked.owner = {call.caller.uid, call.caller.gid};
  CARMA_TRY(ReadForOthers(call, in, asked));
  if (in.Get("request", asked.request, 64) && !task::IsWord(asked.request))
    in.Complain("request", "1 to 64 letters, digits or any of '_', '-', '+', '.'");
  in.Get("pid", pid, 1, INT32_MAX);
  in.NoOthers();
  if (spec == nullptr) in.Complain("spec", "a description as in /v1/tasks");
  if (in.error()) return std::unexpected(*in.error());
  task::TaskSpec read = CARMA_TRY(task::SpecFromJson(*spec, "/spec"));
  if (read.attach || read.array_index || !read.parameters.empty()) {
    return Invalid(
        "/spec: a lease is for one process that carmad does not start, so attach, array_index and "
        "parameters are not allowed");
  }
  if (read.lease || read.lease_key) return Invalid("/spec: expected no lease and no lease_key");
  const task::LeaseProcess process = CARMA_TRY(ProcessOf(call, pid, call.caller.uid));
  CARMA_TRY(services->leases->MayHaveLease(process.process.pid));
  asked.process = process;
  asked.spec = std::move(read);
  asked.spec.lease = task::TextOf(process);
  if (asked.key) GiveKey(asked);
  // CARMA cannot restart the step and does not see its output. Slurm enforces the job's time limit.
  asked.spec.requeue = false;
  asked.spec.max_recoveries = 0;
  asked.spec.stdout_path = "/dev/null";
  asked.spec.stderr_path = "/dev/null";
  return asked;
}

// The existing lease with this key, or the lease of the job's script; empty if there is neither.
Result<std::optional<core::TaskId>> FindKnown(const SharedServices& services,
                                              const LeaseAsked& asked, const Caller& caller) {
  const task::LeaseKey& key = *asked.key;
  for (const auto& [id, known] : services->leases->LeasesOfJob(key.job)) {
    if (known == key) {
      if (services->leases->ProcessOf(id) == asked.process) return id;
      return Conflict("step {} of job {} already has lease {} for a different process", key.step,
                      key.job, id);
    }
    const bool of_the_job = known.IsBase() && !key.IsBase() && known.cluster == key.cluster;
    if (!of_the_job || !services->leases->Adopted(id)) continue;
    const store::StoredTask stored = CARMA_TRY(services->store.Get(id));
    if (stored.record.request->uid != asked.owner.uid) continue;
    CARMA_TRY(services->leases->JoinLease(id, asked.process));
    LogAsked("lease_joined", {{"task", id}, {"step", key.step}}, caller);
    return id;
  }
  return std::nullopt;
}

// Raises the requested memory to the job's claim in Slurm. A restarted job still has its original
// options, but its claim may have grown.
void RaiseClaim(task::TaskSpec& spec, std::optional<std::int64_t> gib) {
  if (!gib || spec.gpus < 1) return;
  const std::int64_t counted_mib = *gib * 1'024 / spec.gpus;
  if (spec.memory_mib && *spec.memory_mib < counted_mib) spec.memory_mib = counted_mib;
}

bool IsLease(const SharedServices& services, core::TaskId id) {
  const Result<store::StoredTask> stored = services->store.Get(id);
  return stored && task::LeaseSpecIn(stored->spec_json);
}

Result<Unit> Submit(const SharedServices& services, const LeaseAsked& asked, const Caller& owner,
                    const Caller& caller, const api::Responder& reply) {
  CARMA_TRY(CheckPriority(asked.spec.priority, owner));
  CARMA_TRY(CheckSlots(asked.spec, services->engine, owner));
  const std::string remark = asked.key ? "lease for " + *asked.spec.comment : "lease";
  services->engine.Submit(
      TaskList({asked.spec}),
      {owner.uid, owner.gid, owner.user, remark, asked.request, store::Durability::kLater},
      [services, caller, process = asked.process, key = asked.key,
       reply](const Result<Submitted>& done) {
        if (!done) return reply(std::unexpected(done.error()));
        if (!done->repeated) {
          LogAsked("lease_asked", {{"task", done->first}, {"pid", process.process.pid}}, caller);
          services->leases->Watch(done->first, process, key);
        }
        reply(LeaseNow(services, done->first, done->repeated ? 200 : 201));
      });
  return Unit{};
}

// The launcher's leases, plus those that it has dropped but whose GPUs the core has not freed yet.
std::vector<core::TaskId> Unfinished(const SharedServices& services) {
  std::vector<core::TaskId> ids = services->leases->Leases();
  const std::set<core::TaskId> known(ids.begin(), ids.end());
  for (const auto& [id, record] : services->engine.scheduler().Tasks()) {
    if (!core::HoldsGpus(record.state) || known.contains(id)) continue;
    if (IsLease(services, id)) ids.push_back(id);
  }
  return ids;
}

}  // namespace

Result<Unit> MakeLease(const SharedServices& services, const Call& call,
                       const api::Responder& reply) {
  LeaseAsked wanted = CARMA_TRY(ReadAsked(services, call));
  if (!wanted.key) return Submit(services, wanted, call.caller, call.caller, reply);
  if (const std::optional<core::TaskId> known =
          CARMA_TRY(FindKnown(services, wanted, call.caller))) {
    reply(LeaseNow(services, *known));
    return Unit{};
  }
  services->ask_name(wanted.owner.uid, [services, asked = std::move(wanted), caller = call.caller,
                                        reply](const Result<base::KnownUser>& user) {
    if (!user) return reply(std::unexpected(user.error()));
    const api::Peer of{asked.owner.uid, asked.owner.gid, 0, user->groups};
    if (const Result<Unit> allowed = services->check_access(of, user->name); !allowed)
      return reply(std::unexpected(allowed.error()));
    const Caller owner{asked.owner.uid, asked.owner.gid, user->name, false};
    const auto submit = [services, owner, caller, reply](const LeaseAsked& what) {
      if (const Result<Unit> done = Submit(services, what, owner, caller, reply); !done)
        reply(std::unexpected(done.error()));
    };
    // A restarted job may claim more memory in Slurm than its options say. A batch step does not
    // get the job's restart count, so carmad asks Slurm for the claim even on a job's first run.
    if (!services->ask_claim || !asked.key->IsBase()) return submit(asked);
    services->ask_claim(asked.key->job, [asked, submit, reply](const auto& gib) {
      if (!gib) return reply(std::unexpected(gib.error()));
      LeaseAsked raised = asked;
      RaiseClaim(raised.spec, *gib);
      submit(raised);
    });
  });
  return Unit{};
}

Answer ListLeases(const SharedServices& services, const Call& call) {
  QueryReader in(call);
  const std::int64_t job = in.Number("job", 0, 1, INT64_MAX);
  if (in.error()) return std::unexpected(*in.error());
  std::vector<core::TaskId> ids;
  if (job == 0) ids = Unfinished(services);
  for (const auto& [id, key] : services->leases->LeasesOfJob(static_cast<std::uint64_t>(job)))
    ids.push_back(id);
  Json list = Json::array();
  for (const core::TaskId id : ids) {
    const Result<api::LeaseView> view = View(services, id);
    if (view && view->state != "ended") list.push_back(ToJson(*view));
  }
  return JsonAnswer({{"leases", std::move(list)}});
}

Result<Unit> ShowLease(const SharedServices& services, const Call& call,
                       const api::Responder& reply) {
  QueryReader in(call);
  const auto wait_s = static_cast<int>(in.Number("wait_s", 0, 0, kMaxLeaseWaitS));
  if (in.error()) return std::unexpected(*in.error());
  const store::StoredTask stored = CARMA_TRY(OwnLease(services, call));
  const core::TaskId id = stored.record.id;
  const auto answer = [services, id, reply] { reply(LeaseNow(services, id)); };
  const bool waits = StateOf(services, stored.record) == "waiting";
  if (wait_s == 0 || !waits) {
    answer();
  } else {
    services->when_lease_changes(id, wait_s, answer);
  }
  return Unit{};
}

Answer AdoptLease(const SharedServices& services, const Call& call) {
  const store::StoredTask stored = CARMA_TRY(OwnLease(services, call));
  std::optional<std::int64_t> pid;
  CARMA_TRY(ReadFields(call, [&](base::JsonReader& in) { in.Get("pid", pid, 1, INT32_MAX); }));
  const task::LeaseProcess process = CARMA_TRY(ProcessOf(call, pid, stored.record.request->uid));
  if (services->leaves && services->leaves(stored.record.id))
    return Unavailable("the lease's job is being moved to another node");
  const auto environment = CARMA_TRY(services->leases->AdoptLease(stored.record.id, process));
  LogAsked("lease_adopted", {{"task", stored.record.id}, {"pid", process.process.pid}},
           call.caller);
  return JsonAnswer({{"environment", environment}});
}

Answer EndLease(const SharedServices& services, const Call& call) {
  const store::StoredTask stored = CARMA_TRY(OwnLease(services, call));
  task::LeaseEnd end;
  CARMA_TRY(ReadFields(call, [&](base::JsonReader& in) {
    in.Get("exit_code", end.exit_code, 0, 255);
    in.Get("signal", end.signal, 0, 64);
    in.Get("stderr_tail", end.stderr_tail, kMaxTail);
  }));
  const core::TaskId id = stored.record.id;
  if (!core::IsFinal(stored.record.state)) {
    // EndLease() fails if the end has already been reported. That is not an error as long as the
    // core still shows the task as running.
    const Result<Unit> ended = services->leases->EndLease(id, end);
    if (!ended && stored.record.state != core::TaskState::kRunning)
      return std::unexpected(ended.error());
    if (ended) LogAsked("lease_ended", {{"task", id}}, call.caller);
  }
  return LeaseNow(services, id);
}

}  // namespace carma::daemon
