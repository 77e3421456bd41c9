#include "daemon/http/endpoints/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

#include "api/task_pointer.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/try.h"
#include "core/scheduler/trial.h"
#include "core/values/reason_line.h"
#include "daemon/http/endpoints/parameters.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {
namespace {

using base::Json;

constexpr std::int64_t kMaxArrayIndex = 1'000'000'000;
// Limits on the size of a submission: in memory, where common parts count once, and in the store,
// where each description is complete. A small body can describe very large tasks.
constexpr std::size_t kMostBytes = 256 << 20;
constexpr std::size_t kMostWritten = std::size_t{4} << 30;
// Larger bodies are read on a separate thread, because parsing them would delay other calls.
constexpr std::size_t kReadAtOnceBytes = 128 << 10;
constexpr std::size_t kReadAtOnceValues = 1'000;
// Approximate limit on the number of values in a body, because many small values would take
// gigabytes.
constexpr std::size_t kMostValues = 2'000'000;
// Limit on large bodies that are waiting to be read. The connection limits do not cover them,
// because their clients may have hung up.
constexpr std::size_t kMostWaiting = 4;
constexpr std::size_t kMostChecked = 100;  // limit on the tasks checked in one dry run
// Limit on the total number of dependencies in a submission. Each dependency is stored and watched
// until its task ends.
constexpr std::size_t kMostDependencies = 1'000'000;
// Time limit for predicting start times in a dry run. If many tasks are waiting, each prediction
// takes a substantial fraction of a second.
constexpr auto kCheckTime = std::chrono::milliseconds(1500);

// Checks the total size of the tasks, including their common parts.
Result<Unit> CheckBytes(std::size_t count, std::size_t bytes_each, std::size_t shared = 0) {
  if (count * bytes_each + shared <= kMostBytes) return Unit{};
  return Invalid(
      "body: {} task{} of {} bytes{}, expected at most 256 MiB in total; send fewer or "
      "shorter tasks",
      count, count == 1 ? "" : "s", bytes_each, count == 1 ? "" : " each");
}

Result<Unit> CheckDependencies(std::size_t in_all) {
  if (in_all <= kMostDependencies) return Unit{};
  return Invalid("body: {} dependencies, expected at most {} across all tasks", in_all,
                 kMostDependencies);
}

Result<TaskList> ReadListed(const Json& tasks, const Json* common) {
  Result<task::TaskSpec> shared;
  if (common != nullptr) shared = task::CommonFromJson(*common, "/common");
  if (!shared) return std::unexpected(shared.error());
  // The common environment is stored only once, and is checked with the first task that uses it.
  TaskList::Environment environment;
  std::vector<task::TaskSpec> specs;
  std::vector<bool> shares;
  std::size_t bytes = 0, dependencies = 0;
  for (const Json& json : tasks) {
    const bool own = json.is_object() && json.contains("environment");
    task::TaskSpec each =
        CARMA_TRY(task::SpecFromJson(json, api::TaskPointer(specs.size()), *shared));
    if (!own && environment.empty()) {
      environment = std::exchange(each.environment, {});
      bytes += DescriptionBytes(*shared);
      shared->environment.clear();
    }
    bytes += DescriptionBytes(each);
    dependencies += each.dependencies.size();
    CARMA_TRY(CheckDependencies(dependencies));
    specs.push_back(std::move(each));
    shares.push_back(!own);
    if (bytes > kMostBytes)
      return std::unexpected(CheckBytes(specs.size(), bytes / specs.size(), bytes).error());
  }
  return TaskList::Batch(std::move(specs), std::move(environment), std::move(shares));
}

Result<TaskList> ReadArray(const Json& spec, const Json* array) {
  task::TaskSpec each = CARMA_TRY(task::SpecFromJson(spec, "/spec"));
  if (array == nullptr) return TaskList({std::move(each)});
  // Each index becomes a separate task, and all tasks share one environment.
  task::TaskSpec bare = each;
  bare.environment.clear();
  CARMA_TRY(CheckBytes(array->size(), DescriptionBytes(bare), DescriptionBytes(each)));
  CARMA_TRY(CheckDependencies(array->size() * each.dependencies.size()));
  std::vector<std::int64_t> indices;
  std::set<std::int64_t> seen;
  for (const Json& index : *array) {
    if (!index.is_number_integer() || index < 0 || index > kMaxArrayIndex ||
        !seen.insert(index.get<std::int64_t>()).second) {
      return Invalid("/array/{}: expected distinct whole numbers", indices.size());
    }
    indices.push_back(index.get<std::int64_t>());
  }
  return TaskList::Array(std::move(each), std::move(indices));
}

struct Described {
  TaskList tasks;
  std::string request;  // name of the submission; may be empty
};

Result<Described> ReadSubmission(const Call& call, std::size_t max_batch) {
  const Json json = CARMA_TRY(ReadBody(call, kMostValues));
  base::JsonReader in(json, "");
  const Json* tasks = in.Raw("tasks");
  const Json* spec = in.Raw("spec");
  const Json* array = in.Raw("array");
  const Json* common = in.Raw("common");
  Described described;
  if (in.Get("request", described.request, 64) && !task::IsWord(described.request))
    in.Complain("request", "1 to 64 letters, digits or any of '_', '-', '+', '.'");
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  const bool listed = tasks != nullptr && tasks->is_array() && spec == nullptr && array == nullptr;
  const bool cloned = tasks == nullptr && spec != nullptr && common == nullptr &&
                      (array == nullptr || array->is_array());
  if (!listed && !cloned) {
    return Invalid(
        "body: expected {\"tasks\": [spec, …], \"common\": {…}} or {\"spec\": spec, \"array\": "
        "[index, …]}");
  }
  const std::size_t count = listed ? tasks->size() : array != nullptr ? array->size() : 1;
  if (count == 0 || count > max_batch) {
    return Invalid("body: {} tasks in one submission, expected 1 to {} (task.max_batch)", count,
                   max_batch);
  }
  TaskList list = CARMA_TRY(listed ? ReadListed(*tasks, common) : ReadArray(*spec, array));
  if (list.BytesOfAll() > kMostWritten) {
    return Invalid(
        "body: {} tasks take {} MiB including shared parts, expected at most 4 GiB; send fewer "
        "tasks "
        "or smaller environments",
        count, list.BytesOfAll() >> 20);
  }
  described.tasks = std::move(list);
  return described;
}

// A dry run. Makes the same estimates as a real submission, and responds when all estimates are
// done.
struct Check {
  const SharedServices services;
  std::vector<task::TaskSpec> specs;  // the tasks to check: the first of the submission
  std::size_t count = 0;              // number of tasks in the submission
  std::uint32_t uid = 0;
  std::string user;
  std::vector<EstimateResult> results;
  std::size_t missing = 0;
};

Json OptionalMs(const std::optional<base::Time>& time) {
  return time ? Json(base::ToMs(*time)) : Json(nullptr);
}

Json Shown(const task::TaskSpec& spec, const EstimateResult& result, const core::Trial& trial,
           const core::ExpectedStart& start, base::Time now,
           const std::vector<std::string>& remarks) {
  const bool hindered = trial.reason.code != core::ReasonCode::kNone;
  Json task = {{"name", spec.name},
               {"gpus", spec.gpus},
               {"fits", trial.fit == core::Fit::kFits ? "now" : "later"},
               {"reason", hindered ? core::ReasonName(trial.reason.code) : ""},
               {"reason_text", *trial.reason.text},
               {"latest_start_ms", OptionalMs(start.latest)},
               {"likely_start_ms", OptionalMs(start.likely)},
               {"now_ms", base::ToMs(now)},
               {"predicted_mib", nullptr},
               {"estimate_method", nullptr},
               {"estimate_remarks", remarks}};
  if (const std::optional<core::Estimate>& estimate = result.estimate) {
    task["predicted_mib"] = estimate->predicted_mib.value_or(estimate->peak_mib);
    task["estimate_method"] = estimate->method;
  }
  return task;
}

// True if two tasks have the same estimate and differ at most in their names. In a run of such
// tasks, only the first is checked.
bool IsLike(const Check& check, std::size_t i, std::size_t other) {
  task::TaskSpec same_name = check.specs[other];
  same_name.name = check.specs[i].name;
  return same_name == check.specs[i] && check.results[i].estimate == check.results[other].estimate;
}

Answer Checked(const Check& check) {
  const core::Scheduler& scheduler = check.services->engine.scheduler();
  const auto end = std::chrono::steady_clock::now() + kCheckTime;
  const base::Time now = check.services->clock.Now();
  Json tasks = Json::array();
  core::Trial trial;
  core::ExpectedStart start;
  bool late = false;
  for (std::size_t i = 0; i < check.specs.size(); ++i) {
    const task::TaskSpec& spec = check.specs[i];
    const EstimateResult& result = check.results[i];
    const core::TaskRequest request = task::ToRequest(spec, check.uid, check.user);
    late = late || (i > 0 && std::chrono::steady_clock::now() >= end);
    if (late) {
      trial = {};
      if (std::optional<core::Reason> never = scheduler.NeverFits(request, result.estimate))
        trial = {core::Fit::kNever, *std::move(never)};
    } else if (i == 0 || !IsLike(check, i, i - 1)) {
      trial = core::Try(scheduler, request, result.estimate, now);
      start = {};
      // A task that is held, or waiting for a time, a limit or another task, is not in the queue,
      // so it has no expected start.
      const bool in_line = !spec.held && spec.dependencies.empty() &&
                           spec.begin.value_or(now) <= now &&
                           trial.reason.code != core::ReasonCode::kLimit;
      if (trial.fit == core::Fit::kNotNow && in_line)
        start = scheduler.ExpectedStartOf(request, result.estimate, now);
    }
    if (trial.fit == core::Fit::kNever)
      return Conflict(core::CanNeverRun(spec.name, *trial.reason.text));
    if (late) continue;
    std::vector<std::string> remarks = result.forecast.remarks;
    core::NoteTooLarge(scheduler, request, result.estimate, remarks);
    tasks.push_back(Shown(spec, result, trial, start, now, remarks));
  }
  return JsonAnswer({{"count", check.count}, {"tasks", std::move(tasks)}});
}

Result<Unit> CheckTasks(const SharedServices& services, const Caller& caller, const TaskList& tasks,
                        const api::Responder& reply) {
  CARMA_TRY(services->engine.CheckQueueLimits(tasks, {caller.uid, caller.gid, caller.user}));
  // Shared by the callbacks, because the estimates arrive in several parts.
  auto check =
      std::make_shared<Check>(Check{services, {}, tasks.size(), caller.uid, caller.user, {}, 0});
  for (std::size_t i = 0; i < std::min(tasks.size(), kMostChecked); ++i)
    check->specs.push_back(tasks.At(i));
  check->results.resize(check->specs.size());
  check->missing = check->specs.size();
  std::vector<EstimateJob> jobs;
  for (const task::TaskSpec& spec : check->specs)
    jobs.push_back(
        {static_cast<core::TaskId>(jobs.size()), spec, caller.uid, caller.gid, caller.user});
  services->estimate(std::move(jobs), [check, reply](std::vector<EstimateResult> results) {
    for (EstimateResult& each : results) {
      check->results[core::Number(each.id)] = std::move(each);
      --check->missing;
    }
    if (check->missing > 0) return;
    check->services->from_snapshot(
        check->uid,
        [check]() -> Result<MakeAnswer> {
          // The forked copy of this process cannot use the store, so the store is read here.
          for (task::TaskSpec& spec : check->specs)
            CARMA_TRY(FillKnownEnds(check->services->engine.store(), spec.dependencies));
          return [check] { return Checked(*check); };
        },
        reply);
  });
  return Unit{};
}

// owner: the user that the tasks belong to; logged if different from the caller.
Intake::Answer AnswerWithNumbers(const Caller& caller, const std::string& owner,
                                 std::vector<std::string> warnings, const api::Responder& reply) {
  return [caller, owner, warnings = std::move(warnings), reply](const Result<Submitted>& done) {
    if (!done) return reply(std::unexpected(done.error()));
    if (!done->repeated) {
      std::vector<base::Field> fields = {{"task", done->first}, {"count", done->count}};
      if (owner != caller.user) fields.emplace_back("owner", owner);
      LogAsked("task_submitted", std::move(fields), caller);
    }
    Json answer = {{"first", core::Number(done->first)}, {"count", done->count}};
    std::vector<std::string> all = warnings;
    if (!done->warning.empty()) all.push_back(done->warning);
    if (!all.empty()) answer["warnings"] = std::move(all);
    reply(JsonAnswer(answer, 201));
  };
}

// The description of the new task, with the changes in the body (which may be empty). The earlier
// task's dependencies and times no longer apply and are dropped.
Result<task::TaskSpec> DescribedAgain(const store::StoredTask& stored, const Call& call) {
  task::TaskSpec spec = CARMA_TRY(task::SpecFromJsonText(stored.spec_json));
  if (spec.lease) {
    return Conflict(
        "task {} was a lease; use carma lease (or POST /v1/leases) to request a new one",
        stored.record.id);
  }
  spec.dependencies.clear();
  spec.begin.reset();
  spec.held = false;
  // No `carma run` client is attached to the new task.
  if (spec.attach && spec.stdout_path == "/dev/null") spec.stdout_path.clear();
  spec.attach.reset();
  spec.terminal = false;
  task::FillDefaults(spec);
  if (call.request.body.empty()) return spec;
  const Json changes = CARMA_TRY(ReadBody(call));
  if (changes == Json::object()) return spec;
  CARMA_TRY(CheckEditable(changes, call.caller, stored));
  Json again = task::ToJson(spec);
  again.merge_patch(changes);
  return task::SpecFromJson(again, "");
}

std::optional<core::TaskId> TaskOf(const SharedServices& services, const Call& call) {
  if (!call.request.peer) return std::nullopt;
  return services->engine.TaskOfProcess(call.request.peer->pid);
}

// The owner of the earlier task, as identified by the kernel when that task was submitted.
Submitter OwnerOf(const store::StoredTask& stored, const Caller& caller) {
  std::string remark = fmt::format("task {} again", stored.record.id);
  if (Owns(caller, stored)) return {caller.uid, caller.gid, caller.user, std::move(remark)};
  return {stored.record.request->uid, stored.gid, stored.user,
          fmt::format("{}, requested by {}", remark, caller.user)};
}

Result<Unit> Take(const SharedServices& services, const Call& call, Result<Described> described,
                  const api::Responder& reply) {
  if (!described) return std::unexpected(described.error());
  QueryReader in(call);
  const bool dry_run = in.Number("check", 0, 0, 1) == 1;
  if (in.error()) return std::unexpected(*in.error());
  const Caller& caller = call.caller;
  const TaskList& tasks = described->tasks;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const task::TaskSpec& like = tasks.Like(i);
    if (like.lease || like.lease_key || like.lease_retries)
      return Invalid("lease: not allowed in a submission (use POST /v1/leases)");
    CARMA_TRY(CheckPriority(like.priority, caller));
    CARMA_TRY(CheckSlots(like, services->engine, caller));
  }
  if (dry_run) return CheckTasks(services, caller, tasks, reply);
  std::vector<std::string> warnings = SubmitWarnings(services->engine, tasks);
  services->engine.Submit(std::move(described->tasks),
                          {.uid = caller.uid,
                           .gid = caller.gid,
                           .user = caller.user,
                           .request = std::move(described->request),
                           .task = TaskOf(services, call)},
                          AnswerWithNumbers(caller, caller.user, std::move(warnings), reply));
  return Unit{};
}

bool IsSmall(std::string_view body) {
  return body.size() <= kReadAtOnceBytes && AboutSoManyValues(body) <= kReadAtOnceValues;
}

// A large submission. The steps that read and accept it share this object.
struct Large {
  Call call;
  Result<Described> described;
};

}  // namespace

std::vector<std::string> SubmitWarnings(const Engine& engine, const TaskList& tasks) {
  std::set<std::string> targets;
  bool serve = false;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    serve |= tasks.Like(i).serve;
    for (const task::NotifyRule& rule : tasks.Like(i).notify)
      if (targets.size() < task::kMaxNotifyRules) targets.insert(rule.target);
  }
  std::vector<std::string> warnings = NoticeWarnings(engine.notice_rules(), targets);
  if (serve && engine.scheduler().config().sharing != core::SharingMethod::kMps) {
    warnings.emplace_back(
        "--serve: this server does not use MPS, so the task has no priority over its neighbours; "
        "its --max-slowdown still applies");
  }
  return warnings;
}

Result<Unit> SubmitTasks(const SharedServices& services, const Call& call,
                         const api::Responder& reply) {
  if (IsSmall(call.request.body))
    return Take(services, call, ReadSubmission(call, services->settings.max_batch), reply);
  if (services->large->waiting() >= kMostWaiting) {
    return Unavailable("{} large submissions are already waiting to be read; try again",
                       services->large->waiting());
  }
  auto large = std::make_shared<Large>(Large{call, {}});
  services->large->Ask([large, services, reply](const SerialExecutor::Hold& hold) {
    const api::Responder last([reply, hold](api::Response answer) { reply(std::move(answer)); });
    services->aside(
        [large, max_batch = services->settings.max_batch] {
          large->described = ReadSubmission(large->call, max_batch);
          large->call.request.body = {};
        },
        [large, services, last] {
          const Result<Unit> taken = Take(services, large->call, std::move(large->described), last);
          if (!taken) last(std::unexpected(taken.error()));
        });
  });
  return Unit{};
}

Result<Unit> RedoTask(const SharedServices& services, const Call& call,
                      const api::Responder& reply) {
  const store::StoredTask stored = CARMA_TRY(Touchable(services->engine.store(), call));
  const task::TaskSpec spec = CARMA_TRY(DescribedAgain(stored, call));
  CARMA_TRY(CheckPriority(spec.priority, call.caller));
  CARMA_TRY(CheckSlots(spec, services->engine, call.caller));
  LogAsked("task_redo", {{"task", stored.record.id}, {"owner", stored.user}}, call.caller);
  Submitter owner = OwnerOf(stored, call.caller);
  owner.task = TaskOf(services, call);
  TaskList tasks({spec});
  std::vector<std::string> warnings = SubmitWarnings(services->engine, tasks);
  services->engine.Submit(TaskList({spec}), owner,
                          AnswerWithNumbers(call.caller, stored.user, std::move(warnings), reply));
  return Unit{};
}

}  // namespace carma::daemon
