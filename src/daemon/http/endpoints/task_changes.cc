// Endpoints that change one or many tasks: cancel, hold, priority, edit and others.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <ranges>
#include <set>
#include <span>
#include <utility>

#include "api/changes_view.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "daemon/http/endpoints/parameters.h"
#include "daemon/http/endpoints/tasks.h"
#include "task/describe/spec_json.h"
#include "task/process/user.h"

namespace carma::daemon {
namespace {

using base::Json;

constexpr std::size_t kChangesAtOnce = 100;  // tasks of one request that are changed per turn

Result<store::StoredTask> TouchableBy(Result<store::StoredTask> found, const Caller& caller) {
  store::StoredTask stored = CARMA_TRY(std::move(found));
  const core::TaskId id = stored.record.id;
  if (caller.admin || Owns(caller, stored)) return stored;
  if (stored.record.request->uid != caller.uid)
    return Denied("task {} belongs to {}", id, stored.user);
  return Denied("task {} belongs to {}: {}", id, stored.user,
                task::WhyNotTheSubmitter(caller.uid, stored.user, caller.user));
}

// Responds with the task in its new state.
Engine::Done AnswerWithTask(const SharedServices& services, core::TaskId id, const Caller& caller,
                            const api::Responder& reply) {
  return [services, id, caller, reply](const Result<Unit>& done) {
    if (!done) return reply(std::unexpected(done.error()));
    const auto read = [services, id] { return services->store.Get(id); };
    const auto write = [services, caller](const store::StoredTask& stored) {
      return JsonAnswer(ToJson(View(services, stored, caller)));
    };
    services->from_snapshot(caller.uid, ReadThenWrite(read, write), reply);
  };
}

// Like AnswerWithTask, but also logs who changed the task, once the change is durable.
Engine::Done AnswerAndLog(const SharedServices& services, const store::StoredTask& stored,
                          std::string_view verb, const Caller& caller, const api::Responder& reply,
                          std::vector<base::Field> more = {}) {
  const core::TaskId id = stored.record.id;
  std::vector<base::Field> fields = {{"task", id}, {"owner", stored.user}};
  fields.insert(fields.end(), more.begin(), more.end());
  return
      [answer = AnswerWithTask(services, id, caller, reply), event = fmt::format("task_{}", verb),
       fields = std::move(fields), caller](const Result<Unit>& done) {
        LogAsked(event, fields, caller, done);
        answer(done);
      };
}

// A field of a description that may be changed, and its `carma edit` option.
struct EditableField {
  std::string_view name, option;
};
constexpr std::array kEditableAlways{EditableField{"name", "--job-name"},
                                     EditableField{"comment", "--comment"},
                                     EditableField{"notify", "--notify"},
                                     EditableField{"time_limit_s", "--time"},
                                     EditableField{"priority", "--priority"},
                                     EditableField{"qos", "--qos"},
                                     EditableField{"signal_before_s", "seconds of --signal"}};
constexpr std::array kEditableWhileItWaits{
    EditableField{"gpu_type", "--gpu-type"},
    EditableField{"gpu_memory_min_mib", "--gpu-memory-min"},
    EditableField{"on_gpus", "--gpu"},
    EditableField{"not_on_gpus", "--not-on"},
    EditableField{"linked_gpus", "--linked"},
    EditableField{"cpus", "--cpus"},
    EditableField{"host_memory_mib", "--mem"},
    EditableField{"own_cpus", "--own-cpus"},
    EditableField{"gpus", "--gpus"},
    EditableField{"memory_mib", "--memory"},
    EditableField{"exclusive", "--exclusive"},
    EditableField{"sm_share", "--sm-share"},
    EditableField{"account", "--account"},
    EditableField{"begin_ms", "--begin"},
    EditableField{"dependencies", "--dependency"},
    EditableField{"max_recoveries", "--retries"},
    EditableField{"requeue", "--requeue"},
    EditableField{"signal", "--signal"},
    EditableField{"signal_main", "B: of --signal"},
    EditableField{"checkpoint_signal", "--checkpoint-signal"}};

const EditableField* FindEditable(std::string_view name) {
  for (const std::span<const EditableField> fields :
       {std::span<const EditableField>(kEditableAlways),
        std::span<const EditableField>(kEditableWhileItWaits)}) {
    const auto found = std::ranges::find(fields, name, &EditableField::name);
    if (found != fields.end()) return &*found;
  }
  return nullptr;
}

// The description, with the values in force for all fields that can be edited.
task::TaskSpec InForce(task::TaskSpec spec, const core::TaskRequest& request) {
  static_cast<core::TaskRequest&>(spec) = request;
  return spec;
}

// The task's current description. A time limit that the user did not set is omitted, because it
// depends on the task's class.
task::TaskSpec DescriptionNow(const task::TaskSpec& stored, const core::TaskRequest& request) {
  task::TaskSpec now = InForce(stored, request);
  if (!stored.time_limit) now.time_limit.reset();
  return now;
}

// Returns kConflict for changes to fields that can no longer be changed in the task's state.
Result<Unit> CheckStillOpen(const Json& before, const Json& changes,
                            const core::TaskRecord& record) {
  if (!core::HoldsGpus(record.state)) return Unit{};
  for (const auto& [name, option] : kEditableWhileItWaits) {
    const std::string key(name);
    if (!changes.contains(key) || changes.at(key) == before.value(key, Json())) continue;
    return Conflict("task {} is {}; {} can be changed only while a task is waiting", record.id,
                    core::TaskStateName(record.state), option);
  }
  return Unit{};
}

// The value in the format that `carma edit` accepts.
std::string ValueText(const std::string& field, const Json& value) {
  if (value.is_null()) return "none";
  if (value.is_array()) {
    std::vector<std::string> texts;
    for (const Json& each : value) texts.push_back(ValueText(field, each));
    return texts.empty() ? "none" : base::Printable(base::Join(texts, ","), 80);
  }
  if (field == "dependencies" && value.is_object())
    return fmt::format("{}:{}", value.value("kind", ""), value.value("task", 0));
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (value.is_string()) return base::Printable(value.get<std::string>(), 80);
  if (value.is_number()) {
    const auto number = value.get<double>();
    const auto whole = static_cast<std::int64_t>(number);
    if (field.ends_with("_mib")) return base::FormatMib(whole);
    if (field == "begin_ms") return base::FormatTimeIso(base::FromMs(whole));
    if (field == "time_limit_s") return base::FormatSpan(base::Duration(whole * 1000));
  }
  return base::Printable(value.dump(), 80);
}

// A line such as "--time 1:00:00 -> 2:00:00, --priority 0 -> -5, by ada"; empty if nothing changed.
// Notification values are omitted, because targets may contain secrets.
std::string WhatChanged(const Json& before, const Json& after, Json changes, const Caller& caller) {
  changes.emplace("time_limit_s", nullptr);  // it also changes with the class
  const auto value = [](const Json& of, const std::string& name) {
    const auto at = of.find(name);
    return at == of.end() ? Json() : *at;
  };
  std::string text;
  for (const auto& [name, unused] : changes.items()) {
    const Json was = value(before, name), is = value(after, name);
    if (was == is) continue;
    const EditableField* field = FindEditable(name);
    const std::string option(field == nullptr ? name : field->option);
    text += name == "notify"
                ? option + ", "
                : fmt::format("{} {} -> {}, ", option, ValueText(name, was), ValueText(name, is));
  }
  return text.empty() ? "" : fmt::format("{}by {}", text, caller.user);
}

constexpr std::array<std::string_view, 4> kVerbs{"cancel", "hold", "release", "requeue"};

// Builds an error such as "task 47 has already succeeded".
base::Error EndedAlready(core::TaskId id, core::TaskState state) {
  const std::string word(core::TaskStateName(state));
  const auto said = [&]() -> std::string {
    switch (state) {
      case core::TaskState::kCancelled:
      case core::TaskState::kRejected:
        return "been " + word;
      case core::TaskState::kOutOfMemory:
        return "run out of GPU memory";
      case core::TaskState::kTimedOut:
        return "timed out";
      case core::TaskState::kLost:
        return "been lost";
      default:
        return word;
    }
  };
  return {ErrorCode::kConflict, fmt::format("task {} has already {}", id, said())};
}

// Why this change is impossible for a task in this state; empty if it is possible.
std::optional<std::string_view> Objection(std::string_view verb, core::TaskState state) {
  const bool waits = !core::IsFinal(state) && !core::HoldsGpus(state);
  if (verb == "hold" && !waits) return "only a waiting task can be held";
  if (verb == "release" && !waits) return "only a waiting task can be released";
  if (verb == "requeue" && state == core::TaskState::kStopping)
    return "requeue it once it has ended";
  return std::nullopt;
}

// Why the task cannot be requeued: its options forbid it, or it is a lease, whose process only the
// owner can restart. lease: the task's description if it is a lease, otherwise null.
std::string WhyNoRequeue(const core::TaskRecord& record, const task::TaskSpec* lease) {
  if (lease == nullptr)
    return fmt::format("task {0} has --no-requeue; use carma redo {0} to submit it again",
                       record.id);
  const auto key = task::ParseLeaseKey(lease->lease_key.value_or(""));
  if (key)
    return fmt::format("task {0} is a lease of Slurm job {1}; use scontrol requeue {1}", record.id,
                       key->job);
  return fmt::format("task {} is a lease: carmad did not start its process and cannot restart it",
                     record.id);
}

// Posts the change to the engine. verb: one of kVerbs. Returns kConflict if it is impossible.
Result<Unit> PostChange(Engine& engine, const store::StoredTask& stored, std::string_view verb,
                        const Caller& caller, Engine::Done done) {
  const core::TaskRecord& record = stored.record;
  if (verb == "cancel" && core::IsFinal(record.state))
    return std::unexpected(EndedAlready(record.id, record.state));
  if (const auto why = Objection(verb, record.state)) {
    if (core::IsFinal(record.state)) return std::unexpected(EndedAlready(record.id, record.state));
    return Conflict("task {} is {}: {}", record.id, core::TaskStateName(record.state), *why);
  }
  if (verb == "requeue") {
    const auto lease = task::LeaseSpecIn(stored.spec_json);
    const Result<task::TaskSpec> spec = task::SpecButEnvironment(stored.spec_json);
    if (core::IsFinal(record.state) && spec && spec->attach)
      return Conflict("task {} was a 'carma run' that has ended; run the command again", record.id);
    if (lease || (core::HoldsGpus(record.state) && !record.request->requeue))
      return Conflict(WhyNoRequeue(record, lease ? &*lease : nullptr));
  }
  const std::string what = fmt::format("{}, by {}", verb, caller.user);
  if ((verb == "hold" && !record.held) || (verb == "release" && record.held))
    engine.Note(record.id, what);
  if (verb == "cancel")
    engine.Post(core::CancelRequested{record.id, caller.user}, std::move(done));
  else if (verb == "hold")
    engine.Post(core::HoldRequested{record.id}, std::move(done));
  else if (verb == "release")
    engine.Post(core::ReleaseRequested{record.id}, std::move(done));
  else
    engine.Requeue(record.id, what, std::move(done));
  return Unit{};
}

struct ManyChanges {
  std::string verb;
  std::vector<core::TaskId> tasks;  // each task once, in the order of the request
};
Result<ManyChanges> ReadChanges(const Call& call) {
  const Json json = CARMA_TRY(ReadBody(call));
  ManyChanges changes;
  base::JsonReader in(json, "");
  if (!in.Get("verb", changes.verb) || std::ranges::find(kVerbs, changes.verb) == kVerbs.end())
    in.Complain("verb", fmt::format("one of {}", fmt::join(kVerbs, ", ")));
  const Json* tasks = in.Raw("tasks");
  const bool counted = tasks != nullptr && tasks->is_array() && !tasks->empty() &&
                       tasks->size() <= api::kMostChanges;
  if (!counted) in.Complain("tasks", fmt::format("1 to {} task numbers", api::kMostChanges));
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  std::set<std::uint64_t> seen;
  for (std::size_t i = 0; i < tasks->size(); ++i) {
    const Json& id = (*tasks)[i];
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() == 0)
      return Invalid("/tasks/{}: expected a task number from 1", i);
    if (seen.insert(id.get<std::uint64_t>()).second)
      changes.tasks.push_back(core::TaskId{id.get<std::uint64_t>()});
  }
  return changes;
}

// Collects the results of many changes. The destructor sends the response, because it runs as soon
// as every task has a result.
class ChangesTold {
 public:
  ChangesTold(const SharedServices& services, const Caller& caller, api::Responder reply)
      : services_(services), caller_(caller), reply_(std::move(reply)) {}
  ChangesTold(const ChangesTold&) = delete;
  ChangesTold& operator=(const ChangesTold&) = delete;
  ~ChangesTold() {
    const auto prepare = [services = services_, caller = caller_, changed = std::move(changed_),
                          refused = std::move(refused_)]() -> Result<MakeAnswer> {
      std::vector<store::StoredTask> rows;
      for (const core::TaskId id : changed) {
        if (Result<store::StoredTask> stored = services->store.Get(id))
          rows.push_back(*std::move(stored));
      }
      return [services, caller, rows = std::move(rows), refused] {
        api::ChangesView view{.tasks = {}, .refused = refused};
        for (const store::StoredTask& stored : rows)
          Shorten(view.tasks.emplace_back(View(services, stored, caller)).command);
        return JsonAnswer(ToJson(view));
      };
    };
    services_->from_snapshot(caller_.uid, prepare, reply_);
  }
  void Take(core::TaskId id, const Result<Unit>& done) {
    if (done) return changed_.push_back(id);
    refused_.push_back({.task = core::Number(id),
                        .code = std::string(base::ErrorCodeName(done.error().code)),
                        .message = done.error().message});
  }

 private:
  SharedServices services_;
  Caller caller_;
  api::Responder reply_;
  std::vector<core::TaskId> changed_;
  std::vector<api::RefusedChange> refused_;
};

// Changes the next kChangesAtOnce tasks, because a thousand changes at once would delay other
// calls. The rest follow once these changes are durable.
void ChangeShare(const SharedServices& services, const std::shared_ptr<const ManyChanges>& changes,
                 std::size_t from, const Caller& caller, const std::shared_ptr<ChangesTold>& told) {
  const std::size_t to = std::min(from + kChangesAtOnce, changes->tasks.size());
  // Destroyed once all of these changes are done. Its deleter continues with the next tasks.
  const std::shared_ptr<const void> last(told.get(), [=](const void*) {
    if (to < changes->tasks.size()) ChangeShare(services, changes, to, caller, told);
  });
  for (std::size_t i = from; i < to; ++i) {
    const core::TaskId id = changes->tasks[i];
    // Only a requeue needs the description, which the core does not have.
    const core::TaskRecord* live =
        changes->verb == "requeue" ? nullptr : services->engine.scheduler().Find(id);
    const Result<store::StoredTask> stored = TouchableBy(
        live == nullptr ? services->store.Get(id)
                        : store::StoredTask{.record = *live, .user = core::UserOf(live->request)},
        caller);
    if (!stored) {
      told->Take(id, std::unexpected(stored.error()));
      continue;
    }
    const auto done = [told, last, id, verb = changes->verb, owner = stored->user,
                       caller](const Result<Unit>& result) {
      told->Take(id, result);
      LogAsked(fmt::format("task_{}", verb), {{"task", id}, {"owner", owner}}, caller, result);
    };
    const Result<Unit> posted = PostChange(services->engine, *stored, changes->verb, caller, done);
    if (!posted) told->Take(id, posted);
  }
}

}  // namespace

Answer ShowSpec(const SharedServices& services, const Call& call) {
  store::StoredTask stored = CARMA_TRY(Touchable(services->store, call));
  return api::Response{.body = std::move(stored.spec_json)};
}

Result<Unit> ChangeTask(const SharedServices& services, const Call& call,
                        const api::Responder& reply) {
  const store::StoredTask stored = CARMA_TRY(Touchable(services->store, call));
  if (std::ranges::find(kVerbs, call.verb) == kVerbs.end()) {
    return NotFound("'{}': expected {}, or priority", base::Printable(call.verb, 40),
                    fmt::join(kVerbs, ", "));
  }
  return PostChange(services->engine, stored, call.verb, call.caller,
                    AnswerAndLog(services, stored, call.verb, call.caller, reply));
}

Result<Unit> ChangeTasks(const SharedServices& services, const Call& call,
                         const api::Responder& reply) {
  ManyChanges changes = CARMA_TRY(ReadChanges(call));
  ChangeShare(services, std::make_shared<const ManyChanges>(std::move(changes)), 0, call.caller,
              std::make_shared<ChangesTold>(services, call.caller, reply));
  return Unit{};
}

Result<Unit> SetPriority(const SharedServices& services, const Call& call,
                         const api::Responder& reply) {
  const store::StoredTask stored = CARMA_TRY(Touchable(services->store, call));
  const Json json = CARMA_TRY(ReadBody(call));
  std::int64_t priority = 0;
  base::JsonReader in(json, "");
  if (!in.Get("priority", priority, -core::kMaxPriority, core::kMaxPriority))
    in.Complain("priority", "a whole number");
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  CARMA_TRY(CheckPriority(priority, call.caller));
  const core::TaskId id = stored.record.id;
  if (core::IsFinal(stored.record.state))
    return std::unexpected(EndedAlready(id, stored.record.state));
  const std::int64_t before = stored.record.request->priority;
  if (priority != before) {
    services->engine.Note(
        id, fmt::format("--priority {} -> {}, by {}", before, priority, call.caller.user));
  }
  services->engine.Post(core::PriorityChanged{id, priority},
                        AnswerAndLog(services, stored, "priority", call.caller, reply,
                                     {{"from", before}, {"to", priority}}));
  return Unit{};
}

Result<Unit> EditTask(const SharedServices& services, const Call& call,
                      const api::Responder& reply) {
  const store::StoredTask stored = CARMA_TRY(Touchable(services->store, call));
  const core::TaskRecord* live = services->engine.scheduler().Find(stored.record.id);
  const core::TaskRecord& record = live != nullptr ? *live : stored.record;
  if (core::IsFinal(record.state)) return std::unexpected(EndedAlready(record.id, record.state));
  const Json changes = CARMA_TRY(ReadBody(call));
  CARMA_TRY(CheckEditable(changes, call.caller, stored));
  const task::TaskSpec spec = CARMA_TRY(task::SpecFromJsonText(stored.spec_json));
  const task::TaskSpec was = DescriptionNow(spec, record.request);
  Json after = task::ToJson(was);
  CARMA_TRY(CheckStillOpen(after, changes, record));
  after.merge_patch(changes);
  const task::TaskSpec wanted = CARMA_TRY(task::SpecFromJson(after, ""));
  if (wanted.priority > record.request->priority)
    CARMA_TRY(CheckPriority(wanted.priority, call.caller));
  if (wanted.qos != record.request->qos) {
    if (core::HoldsGpus(record.state) && !call.caller.admin)
      return Conflict("task {}: only administrators can change --qos of a running task", record.id);
    CARMA_TRY(CheckSlots(wanted, services->engine, call.caller));
  }
  const base::CopyOnWrite<core::TaskRequest> edited =
      CARMA_TRY(services->engine.CheckEdit(record.id, was, wanted));
  if (!call.caller.admin)
    CARMA_TRY(
        CheckReservations(record, edited, services->engine.scheduler(), services->clock.Now()));
  const std::string what = WhatChanged(task::ToJson(InForce(was, record.request)),
                                       task::ToJson(InForce(wanted, edited)), changes, call.caller);
  services->engine.Edit(
      record.id, wanted, edited, what,
      AnswerAndLog(services, stored, "edit", call.caller, reply, {{"what", what}}));
  return Unit{};
}

Result<store::StoredTask> Touchable(store::Store& store, const Call& call) {
  const core::TaskId id = CARMA_TRY(TaskIdOf(call.id));
  return TouchableBy(store.Get(id), call.caller);
}

bool Owns(const Caller& caller, const store::TaskOwner& owner) {
  return caller.uid == owner.uid &&
         task::WhyNotTheSubmitter(caller.uid, owner.user, caller.user).empty();
}

bool Owns(const Caller& caller, const store::StoredTask& stored) {
  return Owns(caller, store::TaskOwner{stored.record.request->uid, stored.user});
}

Result<Unit> CheckEditable(const Json& changes, const Caller& caller,
                           const store::StoredTask& stored) {
  if (!changes.is_object() || changes.empty())
    return Invalid("body: expected an object with the fields to change");
  for (const auto& [name, value] : changes.items()) {
    if (FindEditable(name) != nullptr) continue;
    const auto names = std::views::transform(&EditableField::name);
    return Invalid("/{}: expected a field that can be changed: {}, {}", base::Printable(name, 40),
                   fmt::join(kEditableAlways | names, ", "),
                   fmt::join(kEditableWhileItWaits | names, ", "));
  }
  if (changes.contains("notify") && !Owns(caller, stored))
    return Denied("only the owner may change a task's notifications");
  return Unit{};
}

Result<Unit> CheckPriority(std::int64_t priority, const Caller& caller) {
  if (priority <= 0) return Unit{};
  return OnlyAdministrators(caller, "raise a priority above 0");
}

Result<Unit> CheckSlots(const core::TaskRequest& request, const Engine& engine,
                        const Caller& caller) {
  if (!request.no_slots) return Unit{};
  const std::vector<std::string>& exempt = engine.scheduler().config().slots.exempt;
  if (std::ranges::find(exempt, core::QosOf(request)) != exempt.end()) return Unit{};
  return OnlyAdministrators(caller, "exempt a task from time slices (slots.exempt)");
}

}  // namespace carma::daemon
