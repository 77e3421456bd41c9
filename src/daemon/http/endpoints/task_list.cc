// The endpoint that lists tasks by number or in queue order.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/try.h"
#include "core/values/entitlement.h"
#include "daemon/http/endpoints/parameters.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::daemon {
namespace {

using base::Json;

constexpr std::size_t kShownBytes = 1'000;
// Maximum number of rows in a response; more would delay other calls.
constexpr std::size_t kMostRows = 1'000;
// Maximum number of tasks to check for a page in queue order. A page that reaches this limit may
// have few rows even though a next page exists.
constexpr std::size_t kMostLooks = 1'000;
// A list is built without forking if it has at most kFewRows rows and its waiting tasks are among
// the first kFewStarts of the queue. The order of the queue is computed without forking if the
// queue has at most kShortQueue tasks.
constexpr std::size_t kFewRows = 100;
constexpr std::size_t kFewStarts = 200;
constexpr std::size_t kShortQueue = 20'000;

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (const core::TaskState state : store::StatesWhere([](core::TaskState) { return true; }))
    names.emplace_back(core::TaskStateName(state));
  return names;
}

// Parses "queued,running" or "all". If the parameter is missing, returns all states that are not
// final.
Result<std::vector<core::TaskState>> QueryStates(const api::Request& request) {
  std::vector<core::TaskState> states;
  const std::optional<std::string> text = request.Query("state");
  if (text == "all") return states;
  if (!text) return store::StatesWhere([](core::TaskState state) { return !core::IsFinal(state); });
  for (const std::string_view name : base::Split(*text, ',')) {
    const std::optional<core::TaskState> state = core::ParseTaskState(name);
    if (!state) {
      return Invalid("no task state '{}'{} (expected {} or all)", base::Printable(name, 40),
                     base::Suggestion(base::ToLower(name), StateNames()),
                     base::Join(StateNames(), ", "));
    }
    if (std::ranges::find(states, *state) == states.end()) states.push_back(*state);
  }
  return states;
}

// Which tasks are requested, and in which order.
struct ListAsked {
  store::TaskFilter filter;
  bool by_turn = false;
};
Result<ListAsked> QueryFilter(const Call& call) {
  ListAsked asked;
  store::TaskFilter& filter = asked.filter;
  filter.states = CARMA_TRY(QueryStates(call.request));
  filter.user = call.request.Query("user");
  filter.name = call.request.Query("name");
  filter.account = call.request.Query("account");
  filter.qos = call.request.Query("qos");
  QueryReader in(call);
  filter.limit = static_cast<std::size_t>(in.Number("limit", 100, 1, kMaxPage));
  if (const std::int64_t before = in.Number("before", 0, 0, INT64_MAX); before > 0)
    filter.before = static_cast<core::TaskId>(before);
  if (in.error()) return std::unexpected(*in.error());
  const std::string order = call.request.Query("order").value_or("desc");
  if (order != "asc" && order != "desc" && order != "turn")
    return Invalid("?order: expected asc, desc or turn");
  asked.by_turn = order == "turn";
  filter.newest_first = order == "desc";
  return asked;
}

// Checks the parts of the filter that do not need the store. user: the name of the task's user,
// which `request` does not contain.
bool IsWanted(const store::TaskFilter& filter, const core::TaskRequest& request,
              const std::string& user) {
  return (!filter.user || user == *filter.user) &&
         (!filter.account || request.account == filter.account) &&
         (!filter.qos || core::QosOf(request) == *filter.qos);
}

bool IsWanted(const store::TaskFilter& filter, const store::StoredTask& stored) {
  const bool state = filter.states.empty() ||
                     std::ranges::find(filter.states, stored.record.state) != filter.states.end();
  return state && IsWanted(filter, *stored.record.request, stored.user) &&
         (!filter.name || stored.name == *filter.name);
}

// The rows of a page, and the task after which the next page begins.
struct Page {
  std::vector<store::StoredTask> rows;
  std::optional<core::TaskId> next;
};

// Fills a page with tasks until it is full and one more task has been found for the next page, or
// until enough tasks have been checked.
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
    bytes_ += stored.spec_json.size();
    page_.rows.push_back(std::move(stored));
    Pass(id);
    if (bytes_ > store::kMostListedBytes) page_.next = id;
  }
  void Pass(core::TaskId id) {
    last_ = id;
    if (++looks_ == kMostLooks) page_.next = id;
  }

 private:
  const store::TaskFilter& filter_;
  Page& page_;
  std::optional<core::TaskId> last_;
  std::size_t bytes_ = 0;
  std::size_t looks_ = 0;
};

// The requested states whose tasks may be only in the store: the final states, and kSubmitted,
// because a task in this state may still be on its way to the core.
std::vector<core::TaskState> StatesInBooksAlone(const store::TaskFilter& filter) {
  return store::StatesWhere([&](core::TaskState state) {
    const bool wanted =
        filter.states.empty() || std::ranges::find(filter.states, state) != filter.states.end();
    return wanted && (core::IsFinal(state) || state == core::TaskState::kSubmitted);
  });
}

// Adds tasks that are not in a queue, oldest first, from the core and the store.
Result<Unit> AddOthers(const SharedServices& services, const store::TaskFilter& filter,
                       const ToldLine& line, PageFiller& filler) {
  const core::TaskRecords& live = services->engine.scheduler().Tasks();
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
      bool cut = false;
      rows = CARMA_TRY(services->store.List(kept, &cut));
      row = 0;
      more = cut || rows.size() == kept.limit;
      if (more) kept.before = rows.back().record.id;
    }
    const bool has_row = row < rows.size();
    if (!has_row && at == live.end()) break;
    if (has_row && (at == live.end() || rows[row].record.id < at->first)) {
      const core::TaskId id = rows[row].record.id;
      if (live.contains(id)) {
        filler.Pass(id);
      } else if (!line.PlaceOf(id)) {  // otherwise already listed with the queue
        filler.Look(std::move(rows[row]));
      }
      ++row;
      continue;
    }
    const core::TaskRecord& record = (at++)->second;
    if (!IsWanted(filter, *record.request, record.request->user)) continue;
    store::StoredTask stored = CARMA_TRY(services->store.Get(record.id));
    filler.Look(std::move(stored));
  }
  return Unit{};
}

// Lists the queued tasks first, in the order the queue had when the first page was fetched, and
// then all other tasks by number.
Result<Page> ListByTurn(const SharedServices& services, store::TaskFilter filter,
                        std::shared_ptr<const ToldLine> line) {
  const core::Scheduler& scheduler = services->engine.scheduler();
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
    if (record != nullptr && !IsWanted(filter, *record->request, record->request->user)) continue;
    store::StoredTask stored = CARMA_TRY(services->store.Get(line->tasks()[at]));
    filler.Look(std::move(stored));
  }
  CARMA_TRY(AddOthers(services, filter, *line, filler));
  if (page.next) services->lines->Keep(std::move(line), *page.next);
  return page;
}

// Lists the requested tasks by number.
Result<Page> ListByNumber(const SharedServices& services, store::TaskFilter filter) {
  const std::size_t wanted = filter.limit++;  // an extra row shows whether there is a next page
  bool cut = false;
  std::vector<store::StoredTask> rows = CARMA_TRY(services->store.List(filter, &cut));
  const bool more = cut || rows.size() > wanted;
  Page page{.rows = std::move(rows), .next = {}};
  if (page.rows.size() > wanted) page.rows.resize(wanted);
  if (more) page.next = page.rows.back().record.id;
  return page;
}

// The length of the shortest prefix of the queue that contains all queued tasks of the page. Empty
// if it is longer than `most`.
std::optional<std::size_t> QueuePartOf(const core::Scheduler& scheduler, const Page& page,
                                       std::size_t most) {
  std::set<core::TaskId> waiting;
  for (const store::StoredTask& stored : page.rows) {
    if (stored.record.state == core::TaskState::kQueued) waiting.insert(stored.record.id);
  }
  if (waiting.empty()) return 0;
  const std::vector<core::TaskId> line = scheduler.InLine(most + 1).with_gpus;
  std::size_t length = 0;
  for (std::size_t i = 0; i < std::min(most, line.size()); ++i) {
    if (waiting.erase(line[i]) > 0) length = i + 1;
  }
  // Queued tasks that are not in this queue have no expected start.
  if (!waiting.empty() && line.size() > most) return std::nullopt;
  return length;
}

// Builds the response from memory, without reading the store. starts: for how many of the first
// queued tasks to compute the expected start.
Answer ListOf(const SharedServices& services, const Page& page, const Caller& caller,
              std::size_t starts) {
  const std::map<core::TaskId, core::ExpectedStart> expected =
      services->engine.scheduler().ExpectedStarts(services->clock.Now(), starts);
  Json tasks = Json::array();
  for (const store::StoredTask& stored : page.rows) {
    api::TaskView view = View(services, stored, caller);
    Shorten(view.command);
    if (view.waiting_since_ms) AddStart(expected, view);
    tasks.push_back(ToJson(view));
  }
  Json next = nullptr;
  if (page.next) next = core::Number(*page.next);
  return JsonAnswer({{"tasks", std::move(tasks)}, {"next", std::move(next)}});
}

// read: called on the loop; returns the page.
void AnswerWithList(const SharedServices& services, const Call& call,
                    const store::TaskFilter& filter, std::function<Result<Page>()> read,
                    const api::Responder& reply) {
  if (filter.limit <= kFewRows) {
    Result<Page> page = read();
    if (!page) return reply(std::unexpected(page.error()));
    if (const auto starts = QueuePartOf(services->engine.scheduler(), *page, kFewStarts))
      return reply(ListOf(services, *page, call.caller, *starts));
    read = [page = *std::move(page)]() -> Result<Page> { return page; };
  }
  const auto write = [services, caller = call.caller](const Page& page) {
    const auto starts = QueuePartOf(services->engine.scheduler(), page, core::kLongestTold);
    return ListOf(services, page, caller, starts.value_or(core::kLongestTold));
  };
  services->from_snapshot(AskerOf(call), ReadThenWrite(std::move(read), write), reply);
}

// All queued tasks in order; tasks without GPUs come last.
std::vector<core::TaskId> LineNow(const core::Scheduler& scheduler) {
  core::TasksInLine line = scheduler.InLine(SIZE_MAX);
  line.with_gpus.insert(line.with_gpus.end(), line.without_gpus.begin(), line.without_gpus.end());
  return std::move(line.with_gpus);
}
// Returns the queue as task numbers separated by spaces.
Answer LineAsText(const core::Scheduler& scheduler) {
  api::Response response;
  for (const core::TaskId id : LineNow(scheduler))
    fmt::format_to(std::back_inserter(response.body), "{} ", id);
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

// Reads the queues first, unless a later page is requested or a recent snapshot exists.
void AnswerByTurn(const SharedServices& services, const Call& call, const store::TaskFilter& filter,
                  const api::Responder& reply) {
  const auto answer = [services, call, filter, reply](std::shared_ptr<const ToldLine> line) {
    AnswerWithList(
        services, call, filter,
        [services, filter, line = std::move(line)] { return ListByTurn(services, filter, line); },
        reply);
  };
  const base::Time now = services->clock.Now();
  if (std::shared_ptr<const ToldLine> line = filter.before
                                                 ? services->lines->Behind(*filter.before, now)
                                                 : services->lines->Fresh(now))
    return answer(std::move(line));
  const auto take = [services, answer](std::vector<core::TaskId> tasks) {
    auto line = std::make_shared<ToldLine>(std::move(tasks), services->clock.Now());
    services->lines->Remember(line);
    answer(std::move(line));
  };
  if (services->engine.scheduler().Tasks().size() <= kShortQueue)
    return take(LineNow(services->engine.scheduler()));
  const auto find = [services]() -> Result<MakeAnswer> {
    return [services] { return LineAsText(services->engine.scheduler()); };
  };
  services->from_snapshot(AskerOf(call), find, [take, reply](Answer line) {
    if (!line || line->status != 200) return reply(std::move(line));
    take(TasksIn(line->body));
  });
}

}  // namespace

void Shorten(std::vector<std::string>& command) {
  std::size_t left = kShownBytes;
  for (std::size_t i = 0; i < command.size(); ++i) {
    std::string& word = command[i];
    if (word.size() <= left) {
      left -= word.size();
      continue;
    }
    while (left > 0 && !base::IsUtf8(word.substr(0, left))) --left;
    word.resize(left);
    word += "…";
    command.resize(i + 1);
  }
}

Result<Unit> ListTasks(const SharedServices& services, const Call& call,
                       const api::Responder& reply) {
  ListAsked asked = CARMA_TRY(QueryFilter(call));
  store::TaskFilter& filter = asked.filter;
  filter.limit = std::min(filter.limit, kMostRows);
  if (asked.by_turn) {
    AnswerByTurn(services, call, filter, reply);
  } else {
    AnswerWithList(
        services, call, filter, [services, filter] { return ListByNumber(services, filter); },
        reply);
  }
  return Unit{};
}

}  // namespace carma::daemon
