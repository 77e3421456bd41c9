// The endpoints that show a single task and explain why it is waiting.
#include "daemon/http/endpoints/tasks.h"

#include <utility>

#include "base/json.h"
#include "base/try.h"
#include "daemon/http/endpoints/parameters.h"
#include "daemon/present/present.h"

namespace carma::daemon {
namespace {

constexpr int kMaxWaitS = 3600;

// The store's data about a task.
struct Known {
  store::StoredTask stored;
  std::vector<std::string> remarks;  // remarks on the task's estimate
  std::vector<store::Notice> notices;
};
Result<Known> LookUp(store::Store& store, core::TaskId id) {
  store::StoredTask stored = CARMA_TRY(store.Get(id));
  Known known{std::move(stored), {}, {}};
  if (Result<std::optional<store::Forecast>> forecast = store.ForecastOf(id);
      forecast && *forecast) {
    known.remarks = std::move((*forecast)->remarks);
  }
  if (Result<std::vector<store::Notice>> notices = store.NoticesOf(id))
    known.notices = *std::move(notices);
  return known;
}

// The task with all details, including those that list rows do not have. Does not read the store.
api::TaskView FullView(const SharedServices& services, const Known& known, const Caller& caller) {
  api::TaskView view = View(services, known.stored, caller);
  view.estimate_remarks = known.remarks;
  const bool errors = SeesErrors(caller, {known.stored.record.request->uid, known.stored.user});
  for (const store::Notice& each : known.notices) {
    view.notices.push_back(Present(each));
    if (!errors) view.notices.back().text.clear();  // a program's error output
  }
  if (view.waiting_since_ms)
    AddStart(services->engine.scheduler().ExpectedStarts(services->clock.Now()), view);
  return view;
}

// Builds the response from memory, without reading the store.
Answer Explained(const SharedServices& services, const Known& known, const Caller& caller) {
  api::ExplainView view;
  view.task = FullView(services, known, caller);
  view.now_ms = base::ToMs(services->clock.Now());
  view.policy = PolicyLine(services->settings);
  view.collocation = CollocationLine(services->settings, &services->monitor);
  view.store_trouble = services->engine.store_trouble();
  if (const std::optional<core::Explanation> why =
          services->engine.scheduler().Explain(known.stored.record.id, services->clock.Now())) {
    if (why->ahead) view.ahead = *why->ahead;
    view.taught_mib = why->taught_mib;
    if (why->host) view.host = Present(*why->host);
    for (const core::GpuVerdict& each : why->gpus) view.gpus.push_back(Present(each));
  }
  return JsonAnswer(ToJson(view));
}

}  // namespace

bool SeesErrors(const Caller& caller, const store::TaskOwner& owner) {
  return caller.admin || (!caller.user.empty() && Owns(caller, owner));
}

api::TaskView View(const SharedServices& services, const store::StoredTask& stored,
                   const Caller& caller) {
  api::TaskView view = Present(stored, services->engine, services->monitor,
                               services->engine.attribution(), services->clock.Now());
  if (!SeesErrors(caller, {stored.record.request->uid, stored.user})) HideErrors(view);
  return view;
}

void AddStart(const std::map<core::TaskId, core::ExpectedStart>& starts, api::TaskView& view) {
  const auto at = starts.find(core::TaskId{view.id});
  if (at == starts.end()) return;
  if (at->second.latest) view.latest_start_ms = base::ToMs(*at->second.latest);
  if (at->second.likely) view.likely_start_ms = base::ToMs(*at->second.likely);
}

Result<Unit> ShowTask(const SharedServices& services, const Call& call,
                      const api::Responder& reply) {
  const core::TaskId id = CARMA_TRY(TaskIdOf(call.id));
  QueryReader in(call);
  const auto wait_s = static_cast<int>(in.Number("wait_s", 0, 0, kMaxWaitS));
  if (in.error()) return std::unexpected(*in.error());
  const std::optional<core::TaskState> state = CARMA_TRY(services->store.StateOf(id));
  if (!state) return std::unexpected(services->store.Get(id).error());
  const auto answer = [services, id, caller = call.caller, uid = AskerOf(call), reply] {
    const auto read = [services, id] { return LookUp(services->store, id); };
    const auto write = [services, caller](const Known& known) {
      return JsonAnswer(ToJson(FullView(services, known, caller)));
    };
    const PrepareAnswer prepare = ReadThenWrite(read, write);
    // Only waiting tasks have an expected start, which takes a long time to compute.
    const core::TaskRecord* record = services->engine.scheduler().Find(id);
    const bool waits = record != nullptr && !core::HoldsGpus(record->state);
    waits ? services->from_snapshot(uid, prepare, reply) : AnswerAtOnce(uid, prepare, reply);
  };
  if (wait_s == 0 || core::IsFinal(*state)) {
    answer();
  } else {
    services->when_final(id, wait_s, answer);
  }
  return Unit{};
}

Result<Unit> ExplainTask(const SharedServices& services, const Call& call,
                         const api::Responder& reply) {
  const core::TaskId id = CARMA_TRY(TaskIdOf(call.id));
  const auto read = [services, id] { return LookUp(services->store, id); };
  const auto write = [services, caller = call.caller](const Known& known) {
    return Explained(services, known, caller);
  };
  services->from_snapshot(AskerOf(call), ReadThenWrite(read, write), reply);
  return Unit{};
}

}  // namespace carma::daemon
