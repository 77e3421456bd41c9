// list, show, explain, history: the verbs that show tasks, their states and the reasons for them.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
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

constexpr const char* kHoldingStates = "launching,running,stopping";
constexpr const char* kUnfinishedStates = "submitted,estimating,queued,launching,running,stopping";

// Fetches running tasks first, so that the limit does not hide them behind a long queue.
Result<TaskPage> FetchQueue(api::Client& client, TaskQuery query) {
  const std::size_t limit = query.limit;
  query.states = kHoldingStates;
  auto page = ListTasks(client, query);
  if (!page) return page;
  SortAsQueue(page->tasks);
  if (page->tasks.size() >= limit) return page;
  // A task that starts between the two requests appears as running in the second response.
  query.states = kUnfinishedStates;
  query.by_turn = true;
  auto all = ListTasks(client, query);
  if (!all) return all;
  std::erase_if(all->tasks, [&page](const api::TaskView& task) {
    return std::ranges::find(page->tasks, task.id, &api::TaskView::id) != page->tasks.end();
  });
  std::ranges::move(all->tasks, std::back_inserter(page->tasks));
  std::ranges::stable_partition(page->tasks, &HoldsGpus);
  page->more = all->more || page->tasks.size() > limit;
  page->tasks.resize(std::min(page->tasks.size(), limit));
  return page;
}

Result<TaskPage> Fetch(api::Client& client, const ListFlags& flags) {
  TaskQuery query{.states = flags.states,
                  .user = flags.user,
                  .name = flags.name,
                  .account = flags.account,
                  .qos = flags.qos,
                  .limit = flags.limit,
                  .newest_first = false};
  if (flags.all && query.states.empty()) query.states = "all";
  const bool queue = query.states.empty();
  // A list with ended tasks begins with the newest ones, which users need most often.
  query.newest_first = !queue;
  return queue ? FetchQueue(client, query) : ListTasks(client, query);
}

// Whether no filter is set, in which case the server's counts cover the same tasks as the list.
bool IsWhole(const ListFlags& flags) {
  return flags.states.empty() && flags.user.empty() && flags.name.empty() &&
         flags.account.empty() && flags.qos.empty();
}

// Returns the number of tasks and how much GPU memory is used.
std::string Totals(Context& context, const api::StatusView& status) {
  std::int64_t running = 0, waiting = 0, used_mib = 0, total_mib = 0;
  for (const auto& [name, count] : status.task_counts) {
    const auto state = core::ParseTaskState(name);
    if (!state || core::IsFinal(*state)) continue;
    (core::HoldsGpus(*state) ? running : waiting) += count;
  }
  std::string text = fmt::format("{} running, {} waiting", running, waiting);
  if (const auto gpus = ListGpus(context.client())) {
    for (const api::GpuView& gpu : gpus->value) {
      used_mib += gpu.used_mib;
      total_mib += gpu.total_mib;
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
  const auto page = Fetch(context.client(), flags);
  if (!page) return std::unexpected(page.error());
  if (context.json) return TasksJson(*page) + "\n";
  const auto status =
      GetStatus(context.client());  // for the daemon's clock, which may be simulated
  if (!status) return std::unexpected(status.error());
  ListStyle style{.columns = columns, .titles = !flags.no_titles, .now_ms = status->value.now_ms};
  std::vector<api::TaskView> tasks = page->tasks;
  if (flags.tree) {
    tasks = AsTree(tasks);
  } else if (!flags.unfold) {
    FoldedTasks folded = FoldArrays(tasks, page->more);
    tasks = std::move(folded.tasks);
    style.ids = std::move(folded.ids);
  }
  std::string text = TaskTable(tasks, style, ScreenOf(context.out));
  // Totals are for people. Programs get only the table.
  const bool at_terminal = ScreenOf(context.out).width > 0;
  if (flags.watch) {
    text = fmt::format("{}   {}\n\n{}", base::FormatTime(base::FromMs(status->value.now_ms)),
                       Totals(context, status->value), text);
  } else if (IsWhole(flags) && at_terminal && !flags.no_titles) {
    text += Totals(context, status->value) + "\n";
  }
  if (page->tasks.empty()) WarnIfNoUser(context, flags.user);
  if (page->more && !flags.limit_given)
    Warn(context, CutText(flags, page->tasks.size(), status->value));
  return text;
}

}  // namespace

void RunList(Context& context, const ListFlags& flags) {
  const auto columns = ParseColumns(flags.columns);
  if (!columns) return context.Fail(columns.error());
  Show(context, flags.watch, flags.interval_s,
       [&] { return RenderList(context, flags, *columns); });
}

void RunShow(Context& context, const std::vector<std::string>& tasks) {
  const auto ids = ResolveTasks(context, tasks, "@");
  if (!ids) return context.Fail(ids.error());
  std::int64_t now_ms = 0;
  if (!context.json) {
    const auto status = GetStatus(context.client());
    if (!status) return context.Fail(status.error());
    now_ms = status->value.now_ms;
  }
  std::vector<std::string> texts;
  for (std::uint64_t id : *ids) {
    auto task = GetTask(context.client(), id);
    if (!task) {
      context.Fail(task.error());
      continue;
    }
    if (context.json) {
      texts.push_back(std::move(task->text));
    } else {
      Print(context, WrapTo(TaskFacts(task->value, now_ms), ScreenOf(context.out), kFactsIndent));
    }
  }
  if (context.json) PrintNamed(context, texts, ids->size() > 1);
}

void RunExplain(Context& context, const std::vector<std::string>& tasks) {
  const auto ids = ResolveTasks(context, tasks, "@");
  if (!ids) return context.Fail(ids.error());
  std::vector<std::string> texts;
  for (std::uint64_t id : *ids) {
    auto explain = ExplainTask(context.client(), id);
    if (!explain) {
      context.Fail(explain.error());
    } else if (context.json) {
      texts.push_back(std::move(explain->text));
    } else {
      Print(context, WrapTo(Explanation(explain->value), ScreenOf(context.out)));
    }
  }
  if (context.json) PrintNamed(context, texts, ids->size() > 1);
}

void RunHistory(Context& context, const HistoryFlags& flags) {
  std::vector<std::optional<std::uint64_t>> wanted = {std::nullopt};
  if (!flags.tasks.empty()) {
    const auto ids = ResolveTasks(context, flags.tasks);
    if (!ids) return context.Fail(ids.error());
    wanted.assign(ids->begin(), ids->end());
  }
  std::vector<api::GpuView> gpus;
  if (!context.json) {
    auto listed = ListGpus(context.client());
    if (listed) gpus = std::move(listed->value);  // otherwise UUIDs are shown
  }
  std::vector<std::string> texts;
  for (const auto& task : wanted) {
    auto events = ListEvents(context.client(), {.task = task, .limit = flags.limit});
    if (!events) {
      context.Fail(events.error());
    } else if (context.json) {
      texts.push_back(std::move(events->text));
    } else {
      Print(context, EventLines(events->value, gpus, ScreenOf(context.out)));
    }
  }
  if (context.json) PrintNamed(context, texts, wanted.size() > 1);
}

}  // namespace carma::cli
