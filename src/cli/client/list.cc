// list, show, explain, history: the verbs that show tasks, their states and the reasons for them.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/task_table.h"
#include "cli/client/task_text.h"
#include "cli/client/task_words.h"
#include "cli/client/verbs.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "core/values/task_state.h"

namespace carma::cli {
namespace {

constexpr std::size_t kUsualEvents = 100;
constexpr const char* kHoldingStates = "launching,running,stopping";
constexpr const char* kUnfinishedStates = "submitted,estimating,queued,launching,running,stopping";

Result<TaskPage> Fetch(api::Client& client, const ListFlags& flags) {
  TaskQuery query{.states = flags.states,
                  .user = flags.user,
                  .name = flags.name,
                  .account = flags.account,
                  .qos = flags.qos,
                  .limit = flags.limit};
  if (flags.all && query.states.empty()) query.states = "all";
  const bool queue = query.states.empty();
  // A list with ended tasks begins with the newest ones, which users need most often.
  query.newest_first = !queue;
  return queue ? FetchQueue(client, query) : ListTasks(client, query);
}

// True if no filter is set, in which case the server's totals match the list.
bool IsWhole(const ListFlags& flags) {
  return flags.states.empty() && flags.user.empty() && flags.name.empty() &&
         flags.account.empty() && flags.qos.empty();
}

// Returns the number of tasks and the GPU memory usage.
std::string Totals(Context& context, const api::StatusView& status) {
  std::int64_t used_mib = 0, total_mib = 0;
  const TaskTotals tasks = TotalsOf(status.task_counts);
  std::string text = fmt::format("{} running, {} waiting", tasks.running, tasks.waiting);
  if (const auto gpus = ListGpus(context.client())) {
    for (const api::GpuView& gpu : gpus->value) {
      used_mib += gpu.used_mib;
      total_mib += gpu.total_mib - gpu.reserved_mib;  // what tasks can use, as in carma top
    }
    text += fmt::format("   {} of {} GPU memory used", base::FormatMib(used_mib),
                        base::FormatMib(total_mib));
  }
  return text;
}

// Reports how much of the list was omitted.
std::string CutText(const ListFlags& flags, std::size_t shown, const api::StatusView& status) {
  std::int64_t all = 0;
  for (const auto& [name, count] : status.task_counts) {
    const auto state = core::ParseTaskState(name);
    if (state && (flags.all || !core::IsFinal(*state))) all += count;
  }
  if (!IsWhole(flags))
    return fmt::format("only the first {} shown; see --limit",
                       shown == 1 ? "task is" : fmt::format("{} tasks are", shown));
  return fmt::format("{} of {} tasks are shown (--limit {} shows all)", shown, all, all);
}

Result<std::string> RenderList(Context& context, const ListFlags& flags,
                               const std::vector<std::string>& columns) {
  const TaskPage page = CARMA_TRY(Fetch(context.client(), flags));
  if (context.json) return TasksJson(page) + "\n";
  // Times in the list are relative to the daemon's clock, which may differ from this machine's.
  const auto status = CARMA_TRY(GetStatus(context.client()));
  ListStyle style{.columns = columns, .titles = !flags.no_titles, .now_ms = status.value.now_ms};
  std::vector<api::TaskView> tasks = page.tasks;
  if (flags.tree) {
    tasks = AsTree(tasks);
  } else if (!flags.unfold) {
    FoldedTasks folded = FoldArrays(tasks, page.more);
    tasks = std::move(folded.tasks);
    style.ids = std::move(folded.ids);
  }
  std::string text = TaskTable(tasks, style, ScreenOf(context.out));
  // Totals are for human readers; programs get only the table.
  const bool at_terminal = ScreenOf(context.out).width > 0;
  if (flags.watch) {
    text = fmt::format("{}   {}\n\n{}", base::FormatTime(base::FromMs(status.value.now_ms)),
                       Totals(context, status.value), text);
  } else if (IsWhole(flags) && at_terminal && !flags.no_titles) {
    text += Totals(context, status.value) + "\n";
  }
  if (page.tasks.empty()) WarnIfNoUser(context, flags.user);
  if (page.more && !flags.limit_given)
    Warn(context, CutText(flags, page.tasks.size(), status.value));
  return text;
}

// Calls the daemon for each of these tasks and shows the responses: as JSON with --json, otherwise
// as formatted by `text`. Continues after a failure.
template <class Ids, class Call, class Text>
void ShowEach(Context& context, const Ids& ids, const Call& call, const Text& text) {
  std::vector<std::string> texts;
  for (const auto& id : ids) {
    auto answer = call(id);
    if (!answer) {
      context.Fail(answer.error());
    } else if (context.json) {
      texts.push_back(std::move(answer->text));
    } else {
      Print(context, text(answer->value));
    }
  }
  if (context.json) PrintNamed(context, texts, ids.size() > 1);
}

}  // namespace

Result<TaskPage> FetchQueue(api::Client& client, TaskQuery query) {
  const std::size_t limit = query.limit;
  query.states = kHoldingStates;
  TaskPage page = CARMA_TRY(ListTasks(client, query));
  SortAsQueue(page.tasks);
  if (page.more) return page;
  // A task that starts between the two requests appears as running in the second response.
  query.states = kUnfinishedStates;
  query.by_turn = true;
  TaskPage all = CARMA_TRY(ListTasks(client, query));
  std::erase_if(all.tasks, [&page](const api::TaskView& task) {
    return std::ranges::find(page.tasks, task.id, &api::TaskView::id) != page.tasks.end();
  });
  std::ranges::move(all.tasks, std::back_inserter(page.tasks));
  std::ranges::stable_partition(page.tasks, &HoldsGpus);
  page.more = all.more || page.tasks.size() > limit;
  page.tasks.resize(std::min(page.tasks.size(), limit));
  return page;
}

Result<Unit> RunList(Context& context, const ListFlags& flags) {
  const auto columns = CARMA_TRY(ParseColumns(flags.columns));
  return Show(context, flags.watch, flags.interval_s,
              [&] { return RenderList(context, flags, columns); });
}

Result<Unit> RunShow(Context& context, const std::vector<std::string>& tasks) {
  const auto ids = CARMA_TRY(ResolveTasks(context, tasks));
  const std::int64_t now_ms =
      context.json ? 0 : CARMA_TRY(GetStatus(context.client())).value.now_ms;
  ShowEach(
      context, ids, [&](std::uint64_t id) { return GetTask(context.client(), id); },
      [&](const api::TaskView& task) {
        return WrapTo(TaskFacts(task, now_ms), ScreenOf(context.out), kFactsIndent);
      });
  return Unit{};
}

Result<Unit> RunExplain(Context& context, const std::vector<std::string>& tasks) {
  const auto ids = CARMA_TRY(ResolveTasks(context, tasks));
  ShowEach(
      context, ids, [&](std::uint64_t id) { return ExplainTask(context.client(), id); },
      [&](const api::ExplainView& explain) {
        return WrapTo(Explanation(explain), ScreenOf(context.out));
      });
  return Unit{};
}

Result<Unit> RunHistory(Context& context, const HistoryFlags& flags) {
  std::vector<std::optional<std::uint64_t>> wanted = {std::nullopt};
  if (!flags.tasks.empty()) {
    const auto ids = CARMA_TRY(ResolveTasks(context, flags.tasks));
    wanted.assign(ids.begin(), ids.end());
  }
  std::vector<api::GpuView> gpus;
  if (!context.json) {
    auto listed = ListGpus(context.client());
    if (listed) gpus = std::move(listed->value);  // otherwise UUIDs are shown
  }
  ShowEach(
      context, wanted,
      [&](const std::optional<std::uint64_t>& task) {
        return ListEvents(context.client(),
                          {.task = task, .limit = flags.limit.value_or(kUsualEvents)});
      },
      [&](const std::vector<api::EventView>& events) {
        if (!flags.limit && events.size() == kUsualEvents)
          Warn(context,
               fmt::format("only the last {} events are shown; see --limit", kUsualEvents));
        return EventLines(events, gpus, ScreenOf(context.out));
      });
  return Unit{};
}

}  // namespace carma::cli
