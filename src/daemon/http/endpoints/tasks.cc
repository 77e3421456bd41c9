#include "daemon/http/endpoints/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include "api/changes_view.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
#include "daemon/http/endpoints/parameters.h"
#include "daemon/present/present.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Json;
using base::Result;
using base::Unit;

constexpr int kMaxWaitS = 3600;
constexpr std::size_t kChangesAtOnce = 100;  // of one request
constexpr std::size_t kMostRows =
    1'000;  // of one answer; to make more would hold up everybody else
// Tasks that one answer goes through in order of turns; a page with few rows may have a next one.
constexpr std::size_t kMostLooks = 1'000;

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int i = 0; i < core::kTaskStateCount; ++i)
    names.emplace_back(core::TaskStateName(static_cast<core::TaskState>(i)));
  return names;
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
  for (const std::string_view name : base::Split(*text, ',')) {
    const std::optional<core::TaskState> state = core::ParseTaskState(name);
    if (!state) {
      return Fail(
          ErrorCode::kInvalid,
          fmt::format("no task state '{}'{} (expected {} or all)", base::Printable(name, 40),
                      base::Suggestion(base::ToLower(name), StateNames()),
                      base::Join(StateNames(), ", ")));
    }
    states.push_back(*state);
  }
  return states;
}

// What is asked for, and how it is to come.
struct Asked {
  store::TaskFilter filter;
  bool by_turn = false;
};
Result<Asked> QueryFilter(const Call& call) {
  Asked asked;
  store::TaskFilter& filter = asked.filter;
  Result<std::vector<core::TaskState>> states = QueryStates(call.request);
  if (!states) return std::unexpected(states.error());
  filter.states = *std::move(states);
  filter.user = call.request.Query("user");
  filter.name = call.request.Query("name");
  QueryReader in(call);
  filter.limit = static_cast<std::size_t>(in.Number("limit", 100, 1, kMaxPage));
  if (const std::int64_t before = in.Number("before", 0, 0, INT64_MAX); before > 0)
    filter.before = static_cast<core::TaskId>(before);
  if (in.error()) return std::unexpected(*in.error());
  const std::string order = call.request.Query("order").value_or("desc");
  if (order != "asc" && order != "desc" && order != "turn")
    return Fail(ErrorCode::kInvalid, "?order: expected asc, desc or turn");
  asked.by_turn = order == "turn";
  filter.newest_first = order == "desc";
  return asked;
}

bool IsWanted(const store::TaskFilter& filter, const store::StoredTask& stored) {
  const bool state = filter.states.empty() ||
                     std::ranges::find(filter.states, stored.record.state) != filter.states.end();
  return state && (!filter.user || stored.user == *filter.user) &&
         (!filter.name || stored.name == *filter.name);
}

// Rows of a list, and behind whom the next page begins.
struct Page {
  std::vector<store::StoredTask> rows;
  std::optional<core::TaskId> next;
};

// Goes through tasks until the page is full, one more is known, or enough have been looked at.
class PageFiller {
 public:
  PageFiller(const store::TaskFilter& filter, Page& page) : filter_(filter), page_(page) {}
  bool Full() const { return page_.next.has_value(); }
  void Look(store::StoredTask&& stored) {
    if (!IsWanted(filter_, stored)) return Pass(stored.record.id);
    if (page_.rows.size() == filter_.limit) {
      page_.next = last_;
      return;
    }
    const core::TaskId id = stored.record.id;
    page_.rows.push_back(std::move(stored));
    Pass(id);
  }
  void Pass(core::TaskId id) {
    last_ = id;
    if (++looks_ == kMostLooks) page_.next = id;
  }

 private:
  const store::TaskFilter& filter_;
  Page& page_;
  std::optional<core::TaskId> last_;
  std::size_t looks_ = 0;
};

// What the books may hold of the wanted tasks that the core does not: those that have ended or are
// just being taken in.
std::vector<core::TaskState> StatesInBooksAlone(const store::TaskFilter& filter) {
  std::vector<core::TaskState> states;
  for (int i = 0; i < core::kTaskStateCount; ++i) {
    const auto state = static_cast<core::TaskState>(i);
    const bool wanted =
        filter.states.empty() || std::ranges::find(filter.states, state) != filter.states.end();
    if (wanted && (core::IsFinal(state) || state == core::TaskState::kSubmitted))
      states.push_back(state);
  }
  return states;
}

// Tasks that stand in no line, oldest first: from the core and from the books, by their numbers.
Result<Unit> AddOthers(const TaskServices& services, const store::TaskFilter& filter,
                       const ToldLine& line, PageFiller& filler) {
  const core::TaskRecords& live = services.engine.scheduler().Tasks();
  auto at = filter.before ? live.upper_bound(*filter.before) : live.begin();
  store::TaskFilter kept = filter;
  kept.limit = kMostRows;
  kept.states = StatesInBooksAlone(filter);
  bool more = !kept.states.empty();
  std::vector<store::StoredTask> rows;
  std::size_t row = 0;
  while (!filler.Full()) {
    while (at != live.end() && line.PlaceOf(at->first)) ++at;
    if (row == rows.size() && more) {
      Result<std::vector<store::StoredTask>> found = services.store.List(kept);
      if (!found) return std::unexpected(found.error());
      rows = *std::move(found);
      row = 0;
      more = rows.size() == kept.limit;
      if (more) kept.before = rows.back().record.id;
    }
    const bool has_row = row < rows.size();
    if (!has_row && at == live.end()) break;
    if (has_row && (at == live.end() || rows[row].record.id < at->first)) {
      const core::TaskId id = rows[row].record.id;
      live.contains(id) ? filler.Pass(id) : filler.Look(std::move(rows[row]));
      ++row;
      continue;
    }
    const core::TaskRecord& record = (at++)->second;
    if (filter.user && record.request->user != *filter.user) continue;
    Result<store::StoredTask> stored = services.store.Get(record.id);
    if (!stored) return std::unexpected(stored.error());
    filler.Look(*std::move(stored));
  }
  return Unit{};
}

// Those in line as they stood when the list was begun; behind them all others by their numbers.
Result<Page> ListByTurn(const TaskServices& services, store::TaskFilter filter,
                        std::shared_ptr<const ToldLine> line) {
  const core::Scheduler& scheduler = services.engine.scheduler();
  Page page;
  PageFiller filler(filter, page);
  std::size_t at = 0;
  if (filter.before) {
    const std::optional<std::size_t> place = line->PlaceOf(*filter.before);
    at = place ? *place + 1 : line->tasks().size();
    if (place) filter.before.reset();
  }
  for (; at < line->tasks().size() && !filler.Full(); ++at) {
    const core::TaskRecord* record = scheduler.Find(line->tasks()[at]);
    if (record != nullptr && filter.user && record->request->user != *filter.user) continue;
    Result<store::StoredTask> stored = services.store.Get(line->tasks()[at]);
    if (!stored) return std::unexpected(stored.error());
    filler.Look(*std::move(stored));
  }
  if (Result<Unit> added = AddOthers(services, filter, *line, filler); !added)
    return std::unexpected(added.error());
  if (page.next) services.lines->Keep(std::move(line), *page.next);
  return page;
}

// By their numbers.
Result<Page> ListByNumber(const TaskServices& services, store::TaskFilter filter) {
  const std::size_t wanted = filter.limit++;  // one more tells whether there is a next page
  Result<std::vector<store::StoredTask>> rows = services.store.List(filter);
  if (!rows) return std::unexpected(rows.error());
  Page page{.rows = *std::move(rows), .next = {}};
  if (page.rows.size() > wanted) {
    page.rows.resize(wanted);
    page.next = page.rows.back().record.id;
  }
  return page;
}

api::TaskView View(const TaskServices& services, const store::StoredTask& stored) {
  return Present(stored, services.engine, services.monitor, services.engine.attribution(),
                 services.clock.Now());
}

void AddStart(const std::map<core::TaskId, core::ExpectedStart>& starts, api::TaskView& view) {
  const auto at = starts.find(core::TaskId{view.id});
  if (at == starts.end()) return;
  if (at->second.latest) view.latest_start_ms = base::ToMs(*at->second.latest);
  if (at->second.likely) view.likely_start_ms = base::ToMs(*at->second.likely);
}

// What the books say of one task.
struct Known {
  store::StoredTask stored;
  std::vector<std::string> remarks;  // of its estimate
  std::vector<store::Notice> notices;
};
Result<Known> LookUp(store::Store& store, core::TaskId id) {
  Result<store::StoredTask> stored = store.Get(id);
  if (!stored) return std::unexpected(stored.error());
  Known known{*std::move(stored), {}, {}};
  if (Result<std::optional<store::Forecast>> forecast = store.ForecastOf(id);
      forecast && *forecast) {
    known.remarks = std::move((*forecast)->remarks);
  }
  if (Result<std::vector<store::Notice>> notices = store.NoticesOf(id))
    known.notices = *std::move(notices);
  return known;
}

// With what a look at one task adds to its row in a list. From memory.
api::TaskView FullView(const TaskServices& services, const Known& known) {
  api::TaskView view = View(services, known.stored);
  view.estimate_remarks = known.remarks;
  for (const store::Notice& each : known.notices) view.notices.push_back(Present(each));
  if (view.waiting_since_ms)
    AddStart(services.engine.scheduler().ExpectedStarts(services.clock.Now()), view);
  return view;
}

Result<store::StoredTask> TouchableBy(store::Store& store, core::TaskId id, const Caller& caller) {
  Result<store::StoredTask> stored = store.Get(id);
  if (!stored) return stored;
  if (stored->record.request->uid != caller.uid && !caller.admin)
    return Fail(ErrorCode::kDenied, fmt::format("task {} belongs to {}", id, stored->user));
  return stored;
}

// Answers with the task as it is then.
Engine::Done AnswerWithTask(const TaskServices& services, core::TaskId id, const Caller& caller,
                            const api::Responder& reply) {
  return [services, id, uid = caller.uid, reply](const Result<Unit>& done) {
    if (!done) return reply(std::unexpected(done.error()));
    const auto prepare = [services, id]() -> Result<MakeAnswer> {
      Result<store::StoredTask> stored = services.store.Get(id);
      if (!stored) return std::unexpected(stored.error());
      return [services, stored = *std::move(stored)] {
        return JsonAnswer(ToJson(View(services, stored)));
      };
    };
    services.from_snapshot(uid, prepare, reply);
  };
}

// The same, and the log says who had the task changed, once that is durable: "task_cancel".
Engine::Done AnswerAndLog(const TaskServices& services, const store::StoredTask& stored,
                          std::string_view verb, const Caller& caller, const api::Responder& reply,
                          std::vector<base::Field> more = {}) {
  const core::TaskId id = stored.record.id;
  std::vector<base::Field> fields = {{"task", id}, {"owner", stored.user}};
  fields.insert(fields.end(), more.begin(), more.end());
  return
      [answer = AnswerWithTask(services, id, caller, reply), event = fmt::format("task_{}", verb),
       fields = std::move(fields), caller](const Result<Unit>& done) {
        if (done) LogAsked(event, fields, caller);
        answer(done);
      };
}

// What may be changed of a task that has not ended, by the names of its description.
constexpr std::array<std::string_view, 7> kEditableAlways{
    "name", "comment", "notify", "time_limit_s", "signal_before_s", "priority", "qos"};
constexpr std::array<std::string_view, 20> kEditableWhileItWaits{"gpu_type",
                                                                 "gpu_memory_min_mib",
                                                                 "on_gpus",
                                                                 "not_on_gpus",
                                                                 "linked_gpus",
                                                                 "cpus",
                                                                 "host_memory_mib",
                                                                 "own_cpus",
                                                                 "gpus",
                                                                 "memory_mib",
                                                                 "exclusive",
                                                                 "sm_share",
                                                                 "account",
                                                                 "begin_ms",
                                                                 "dependencies",
                                                                 "max_recoveries",
                                                                 "requeue",
                                                                 "signal",
                                                                 "signal_main",
                                                                 "checkpoint_signal"};

// Its description as it holds now: the core's part is what the core has of it.
Json DescriptionNow(const task::TaskSpec& spec, const core::TaskRecord& record) {
  task::TaskSpec now = spec;
  static_cast<core::TaskRequest&>(now) = record.request;
  return task::ToJson(now);
}

// Errors: kConflict for what can no longer be changed.
Result<Unit> CheckStillOpen(const Json& changes, const core::TaskRecord& record) {
  if (!core::HoldsGpus(record.state)) return Unit{};
  for (const std::string_view name : kEditableWhileItWaits) {
    if (!changes.contains(name)) continue;
    return Fail(ErrorCode::kConflict,
                fmt::format("task {} is {}: {} can only be changed while it waits", record.id,
                            core::TaskStateName(record.state), name));
  }
  return Unit{};
}

// "time_limit_s 3600 -> 7200, priority 0 -> -5, by ada". Whom it tells may hold secrets.
std::string WhatChanged(const Json& before, const Json& after, const Json& changes,
                        const Caller& caller) {
  const auto value = [](const Json& of, const std::string& name) {
    const auto at = of.find(name);
    return at == of.end() ? "none" : base::Printable(at->dump(), 80);
  };
  std::string text;
  for (const auto& [name, unused] : changes.items()) {
    if (value(before, name) == value(after, name)) continue;
    text += name == "notify"
                ? "notify, "
                : fmt::format("{} {} -> {}, ", name, value(before, name), value(after, name));
  }
  return fmt::format("{}by {}", text, caller.user);
}

constexpr std::array<std::string_view, 4> kVerbs{"cancel", "hold", "release", "requeue"};

// "task 47 has already succeeded"
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

// Why the task cannot be changed so.
std::optional<std::string_view> Objection(std::string_view verb, core::TaskState state) {
  const bool waits = !core::IsFinal(state) && !core::HoldsGpus(state);
  if (verb == "hold" && !waits) return "only a waiting task can be held";
  if (verb == "release" && !waits) return "only a waiting task can be released";
  if (verb == "requeue" && state == core::TaskState::kStopping) return "it is being stopped";
  return std::nullopt;
}

// Whoever started its process starts it again.
std::string WhyNoRequeue(const core::TaskRecord& record, const task::TaskSpec& lease) {
  const auto key = task::ParseLeaseKey(lease.lease_key.value_or(""));
  if (key) {
    return fmt::format("task {} is a lease of Slurm's job {}: use scontrol requeue {}", record.id,
                       key->job, key->job);
  }
  return fmt::format(
      "task {} is a lease: carmad did not start its process and cannot start it again", record.id);
}

// verb: one of kVerbs. Errors: kConflict.
Result<Unit> PostChange(Engine& engine, const store::StoredTask& stored, std::string_view verb,
                        const Caller& caller, Engine::Done done) {
  const core::TaskRecord& record = stored.record;
  if (verb == "cancel" && core::IsFinal(record.state))
    return std::unexpected(EndedAlready(record.id, record.state));
  if (const std::optional<std::string_view> why = Objection(verb, record.state)) {
    return Fail(ErrorCode::kConflict, fmt::format("task {} is {}: {}", record.id,
                                                  core::TaskStateName(record.state), *why));
  }
  if (verb == "requeue") {
    if (const auto lease = task::LeaseSpecIn(stored.spec_json))
      return Fail(ErrorCode::kConflict, WhyNoRequeue(record, *lease));
  }
  if (verb == "cancel") {
    engine.Post(core::CancelRequested{record.id, caller.user}, std::move(done));
  } else if (verb == "hold") {
    engine.Post(core::HoldRequested{record.id}, std::move(done));
  } else if (verb == "release") {
    engine.Post(core::ReleaseRequested{record.id}, std::move(done));
  } else {
    engine.Requeue(record.id, std::move(done));
  }
  return Unit{};
}

struct ManyChanges {
  std::string verb;
  std::vector<core::TaskId> tasks;
};
Result<ManyChanges> ReadChanges(const Call& call) {
  const Result<Json> json = ReadBody(call);
  if (!json) return std::unexpected(json.error());
  ManyChanges changes;
  base::JsonReader in(*json, "");
  if (!in.Get("verb", changes.verb) || std::ranges::find(kVerbs, changes.verb) == kVerbs.end())
    in.Complain("verb", fmt::format("one of {}", fmt::join(kVerbs, ", ")));
  const Json* tasks = in.Raw("tasks");
  const bool counted = tasks != nullptr && tasks->is_array() && !tasks->empty() &&
                       tasks->size() <= api::kMostChanges;
  if (!counted) in.Complain("tasks", fmt::format("1 to {} task numbers", api::kMostChanges));
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  for (std::size_t i = 0; i < tasks->size(); ++i) {
    const Json& id = (*tasks)[i];
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() == 0)
      return Fail(ErrorCode::kInvalid, fmt::format("/tasks/{}: expected a task number from 1", i));
    changes.tasks.push_back(core::TaskId{id.get<std::uint64_t>()});
  }
  return changes;
}

// Answers once it is known of each task what became of it: when the last one who holds it is gone.
class ChangesTold {
 public:
  ChangesTold(const TaskServices& services, const Caller& caller, api::Responder reply)
      : services_(services), uid_(caller.uid), reply_(std::move(reply)) {}
  ChangesTold(const ChangesTold&) = delete;
  ChangesTold& operator=(const ChangesTold&) = delete;
  ~ChangesTold() {
    const auto prepare = [services = services_, changed = std::move(changed_),
                          refused = std::move(refused_)]() -> Result<MakeAnswer> {
      std::vector<store::StoredTask> rows;
      for (const core::TaskId id : changed) {
        if (Result<store::StoredTask> stored = services.store.Get(id))
          rows.push_back(*std::move(stored));
      }
      return [services, rows = std::move(rows), refused] {
        api::ChangesView view{.tasks = {}, .refused = refused};
        for (const store::StoredTask& stored : rows) view.tasks.push_back(View(services, stored));
        return JsonAnswer(ToJson(view));
      };
    };
    services_.from_snapshot(uid_, prepare, reply_);
  }
  void Take(core::TaskId id, const Result<Unit>& done) {
    if (done) return changed_.push_back(id);
    refused_.push_back({.task = core::Number(id),
                        .code = std::string(base::ErrorCodeName(done.error().code)),
                        .message = done.error().message});
  }

 private:
  TaskServices services_;
  std::uint32_t uid_;
  api::Responder reply_;
  std::vector<core::TaskId> changed_;
  std::vector<api::RefusedChange> refused_;
};

// Changes a share of them, and the next one once that is durable: a thousand at once would hold up
// everybody else.
void ChangeShare(const TaskServices& services, const std::shared_ptr<const ManyChanges>& changes,
                 std::size_t from, const Caller& caller, const std::shared_ptr<ChangesTold>& told) {
  const std::size_t to = std::min(from + kChangesAtOnce, changes->tasks.size());
  // Gone with the last change of this share.
  const std::shared_ptr<const void> last(told.get(), [=](const void*) {
    if (to < changes->tasks.size()) ChangeShare(services, changes, to, caller, told);
  });
  for (std::size_t i = from; i < to; ++i) {
    const core::TaskId id = changes->tasks[i];
    const Result<store::StoredTask> stored = TouchableBy(services.store, id, caller);
    if (!stored) {
      told->Take(id, std::unexpected(stored.error()));
      continue;
    }
    const auto done = [told, last, id, verb = changes->verb, owner = stored->user,
                       caller](const Result<Unit>& result) {
      told->Take(id, result);
      if (result) LogAsked(fmt::format("task_{}", verb), {{"task", id}, {"owner", owner}}, caller);
    };
    const Result<Unit> posted = PostChange(services.engine, *stored, changes->verb, caller, done);
    if (!posted) told->Take(id, posted);
  }
}

// From memory.
Answer Explained(const TaskServices& services, const Known& known) {
  api::ExplainView view;
  view.task = FullView(services, known);
  view.now_ms = base::ToMs(services.clock.Now());
  view.policy = PolicyLine(services.settings);
  view.collocation = CollocationLine(services.settings, &services.monitor);
  if (const std::optional<core::Explanation> why =
          services.engine.scheduler().Explain(known.stored.record.id, services.clock.Now())) {
    if (why->ahead) view.ahead = *why->ahead;
    view.taught_mib = why->taught_mib;
    if (why->host) view.host = Present(*why->host);
    for (const core::GpuVerdict& each : why->gpus) view.gpus.push_back(Present(each));
  }
  return JsonAnswer(ToJson(view));
}

// From memory.
Answer ListOf(const TaskServices& services, const Page& page) {
  Json tasks = Json::array();
  std::optional<std::map<core::TaskId, core::ExpectedStart>> starts;
  for (const store::StoredTask& stored : page.rows) {
    api::TaskView view = View(services, stored);
    if (view.waiting_since_ms) {
      if (!starts) starts = services.engine.scheduler().ExpectedStarts(services.clock.Now());
      AddStart(*starts, view);
    }
    tasks.push_back(ToJson(view));
  }
  Json next = nullptr;
  if (page.next) next = core::Number(*page.next);
  return JsonAnswer({{"tasks", std::move(tasks)}, {"next", std::move(next)}});
}

// read: the rows, on the loop.
void AnswerWithList(const TaskServices& services, std::optional<std::uint32_t> uid,
                    const std::function<Result<Page>()>& read, const api::Responder& reply) {
  const auto prepare = [services, read]() -> Result<MakeAnswer> {
    Result<Page> page = read();
    if (!page) return std::unexpected(page.error());
    return [services, page = *std::move(page)] { return ListOf(services, page); };
  };
  services.from_snapshot(uid, prepare, reply);
}

// The lines as a text: numbers with blanks between them, those without GPUs behind the others.
Answer LinesAsText(const core::Scheduler& scheduler) {
  const core::TasksInLine line = scheduler.InLine(SIZE_MAX);
  api::Response response;
  for (const auto* tasks : {&line.with_gpus, &line.without_gpus}) {
    for (const core::TaskId id : *tasks)
      fmt::format_to(std::back_inserter(response.body), "{} ", id);
  }
  return response;
}
std::vector<core::TaskId> TasksIn(std::string_view text) {
  std::vector<core::TaskId> tasks;
  for (const std::string_view word : base::SplitWords(text)) {
    if (const auto number = base::ParseInt(word))
      tasks.push_back(core::TaskId{static_cast<std::uint64_t>(*number)});
  }
  return tasks;
}

// Finds the lines first, unless the list goes on or they were told a moment ago.
void AnswerByTurn(const TaskServices& services, std::optional<std::uint32_t> uid,
                  const store::TaskFilter& filter, const api::Responder& reply) {
  const auto answer = [services, uid, filter, reply](std::shared_ptr<const ToldLine> line) {
    AnswerWithList(
        services, uid,
        [services, filter, line = std::move(line)] { return ListByTurn(services, filter, line); },
        reply);
  };
  const base::Time now = services.clock.Now();
  if (std::shared_ptr<const ToldLine> line =
          filter.before ? services.lines->Behind(*filter.before, now) : services.lines->Fresh(now))
    return answer(std::move(line));
  const auto find = [services]() -> Result<MakeAnswer> {
    return [services] { return LinesAsText(services.engine.scheduler()); };
  };
  services.from_snapshot(uid, find, [services, answer, reply](Answer lines) {
    if (!lines) return reply(std::move(lines));
    if (lines->status != 200) return reply(std::move(lines));
    auto line = std::make_shared<ToldLine>(TasksIn(lines->body), services.clock.Now());
    services.lines->Remember(line);
    answer(std::move(line));
  });
}

}  // namespace

Result<Unit> ListTasks(const TaskServices& services, const Call& call,
                       const api::Responder& reply) {
  Result<Asked> asked = QueryFilter(call);
  if (!asked) return std::unexpected(asked.error());
  store::TaskFilter& filter = asked->filter;
  filter.limit = std::min(filter.limit, kMostRows);
  if (asked->by_turn) {
    AnswerByTurn(services, AskerOf(call), filter, reply);
  } else {
    AnswerWithList(
        services, AskerOf(call),
        [services, filter = std::move(filter)] { return ListByNumber(services, filter); }, reply);
  }
  return Unit{};
}

Result<Unit> ShowTask(const TaskServices& services, const Call& call, const api::Responder& reply) {
  const Result<core::TaskId> id = TaskIdOf(call.id);
  if (!id) return std::unexpected(id.error());
  QueryReader in(call);
  const auto wait_s = static_cast<int>(in.Number("wait_s", 0, 0, kMaxWaitS));
  if (in.error()) return std::unexpected(*in.error());
  const Result<std::optional<core::TaskState>> state = services.store.StateOf(*id);
  if (!state) return std::unexpected(state.error());
  if (!*state) return std::unexpected(services.store.Get(*id).error());
  const auto answer = [services, id = *id, uid = AskerOf(call), reply] {
    const auto prepare = [services, id]() -> Result<MakeAnswer> {
      Result<Known> known = LookUp(services.store, id);
      if (!known) return std::unexpected(known.error());
      return [services, known = *std::move(known)] {
        return JsonAnswer(ToJson(FullView(services, known)));
      };
    };
    // Only of one that waits there is anything to be looked for.
    const core::TaskRecord* record = services.engine.scheduler().Find(id);
    const bool waits = record != nullptr && !core::HoldsGpus(record->state);
    waits ? services.from_snapshot(uid, prepare, reply) : AnswerAtOnce(uid, prepare, reply);
  };
  if (wait_s == 0 || core::IsFinal(**state)) {
    answer();
  } else {
    services.when_final(*id, wait_s, answer);
  }
  return Unit{};
}

Result<Unit> ExplainTask(const TaskServices& services, const Call& call,
                         const api::Responder& reply) {
  const Result<core::TaskId> id = TaskIdOf(call.id);
  if (!id) return std::unexpected(id.error());
  const auto prepare = [services, id = *id]() -> Result<MakeAnswer> {
    Result<Known> known = LookUp(services.store, id);
    if (!known) return std::unexpected(known.error());
    return [services, known = *std::move(known)] { return Explained(services, known); };
  };
  services.from_snapshot(AskerOf(call), prepare, reply);
  return Unit{};
}

Answer ShowSpec(const TaskServices& services, const Call& call) {
  Result<store::StoredTask> stored = Touchable(services.store, call);
  if (!stored) return std::unexpected(stored.error());
  return api::Response{.body = std::move(stored->spec_json)};
}

Result<Unit> ChangeTask(const TaskServices& services, const Call& call,
                        const api::Responder& reply) {
  const Result<store::StoredTask> stored = Touchable(services.store, call);
  if (!stored) return std::unexpected(stored.error());
  if (std::ranges::find(kVerbs, call.verb) == kVerbs.end()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("'{}': expected {}, or priority", base::Printable(call.verb, 40),
                            fmt::join(kVerbs, ", ")));
  }
  return PostChange(services.engine, *stored, call.verb, call.caller,
                    AnswerAndLog(services, *stored, call.verb, call.caller, reply));
}

Result<Unit> ChangeTasks(const TaskServices& services, const Call& call,
                         const api::Responder& reply) {
  Result<ManyChanges> changes = ReadChanges(call);
  if (!changes) return std::unexpected(changes.error());
  ChangeShare(services, std::make_shared<const ManyChanges>(*std::move(changes)), 0, call.caller,
              std::make_shared<ChangesTold>(services, call.caller, reply));
  return Unit{};
}

Result<Unit> SetPriority(const TaskServices& services, const Call& call,
                         const api::Responder& reply) {
  const Result<store::StoredTask> stored = Touchable(services.store, call);
  if (!stored) return std::unexpected(stored.error());
  const Result<Json> json = ReadBody(call);
  if (!json) return std::unexpected(json.error());
  std::int64_t priority = 0;
  base::JsonReader in(*json, "");
  if (!in.Get("priority", priority, -1'000'000, 1'000'000))
    in.Complain("priority", "a whole number");
  in.NoOthers();
  if (in.error()) return std::unexpected(*in.error());
  if (Result<Unit> ranked = CheckPriority(priority, call.caller); !ranked) return ranked;
  const core::TaskId id = stored->record.id;
  services.engine.Post(
      core::PriorityChanged{id, priority},
      AnswerAndLog(services, *stored, "priority", call.caller, reply,
                   {{"from", stored->record.request->priority}, {"to", priority}}));
  return Unit{};
}

Result<Unit> EditTask(const TaskServices& services, const Call& call, const api::Responder& reply) {
  const Result<store::StoredTask> stored = Touchable(services.store, call);
  if (!stored) return std::unexpected(stored.error());
  const core::TaskRecord* live = services.engine.scheduler().Find(stored->record.id);
  const core::TaskRecord& record = live != nullptr ? *live : stored->record;
  if (core::IsFinal(record.state)) return std::unexpected(EndedAlready(record.id, record.state));
  const Result<Json> changes = ReadBody(call);
  if (!changes) return std::unexpected(changes.error());
  if (Result<Unit> good = CheckEditable(*changes, call.caller, record.request->uid); !good)
    return good;
  if (Result<Unit> open = CheckStillOpen(*changes, record); !open) return open;
  const Result<task::TaskSpec> spec = task::SpecFromJsonText(stored->spec_json);
  if (!spec) return std::unexpected(spec.error());
  const Json before = DescriptionNow(*spec, record);
  Json after = before;
  after.merge_patch(*changes);
  const Result<task::TaskSpec> wanted = task::SpecFromJson(after, "");
  if (!wanted) return std::unexpected(wanted.error());
  if (wanted->priority > record.request->priority) {
    if (Result<Unit> ranked = CheckPriority(wanted->priority, call.caller); !ranked) return ranked;
  }
  if (wanted->qos != record.request->qos) {
    const core::SlotRules& slots = services.engine.scheduler().config().slots;
    if (Result<Unit> may = CheckSlots(*wanted, slots, call.caller); !may) return may;
  }
  const std::string what = WhatChanged(before, task::ToJson(*wanted), *changes, call.caller);
  services.engine.Edit(
      *stored, *wanted, what,
      AnswerAndLog(services, *stored, "edit", call.caller, reply, {{"what", what}}));
  return Unit{};
}

Result<store::StoredTask> Touchable(store::Store& store, const Call& call) {
  const Result<core::TaskId> id = TaskIdOf(call.id);
  if (!id) return std::unexpected(id.error());
  return TouchableBy(store, *id, call.caller);
}

Result<Unit> CheckEditable(const Json& changes, const Caller& caller, std::uint32_t owner) {
  if (!changes.is_object() || changes.empty())
    return Fail(ErrorCode::kInvalid, "body: expected an object of fields to change");
  for (const auto& [name, value] : changes.items()) {
    if (std::ranges::find(kEditableAlways, name) != kEditableAlways.end() ||
        std::ranges::find(kEditableWhileItWaits, name) != kEditableWhileItWaits.end())
      continue;
    return Fail(
        ErrorCode::kInvalid,
        fmt::format("/{}: expected a field that can be changed: {}, {}", base::Printable(name, 40),
                    fmt::join(kEditableAlways, ", "), fmt::join(kEditableWhileItWaits, ", ")));
  }
  if (changes.contains("notify") && caller.uid != owner)
    return Fail(ErrorCode::kDenied, "only its owner may change a task's notifications");
  return Unit{};
}

Result<Unit> CheckPriority(std::int64_t priority, const Caller& caller) {
  if (priority <= 0) return Unit{};
  return OnlyAdministrators(caller, "raise a priority above 0");
}

Result<Unit> CheckSlots(const core::TaskRequest& request, const core::SlotRules& rules,
                        const Caller& caller) {
  if (!request.no_slots) return Unit{};
  if (std::ranges::find(rules.exempt, core::QosOf(request)) != rules.exempt.end()) return Unit{};
  return OnlyAdministrators(caller, "except a task from time slots, as slots.exempt stands");
}

}  // namespace carma::daemon
