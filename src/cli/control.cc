// cancel, hold, release, requeue, priority, edit: changes of tasks.
#include <algorithm>

#include "base/text.h"
#include "cli/calls.h"
#include "cli/changes.h"
#include "cli/verbs.h"

namespace carma::cli {
namespace {

using Change = std::function<Called<api::TaskView>(std::uint64_t id)>;

// Goes on after a failure: the others are still wanted. forgiving: tasks that ended meanwhile are
// no failure.
void ChangeEach(Context& context, const std::vector<std::uint64_t>& ids, bool forgiving,
                const Change& change) {
  std::vector<std::string> texts;
  for (std::uint64_t id : ids) {
    auto task = change(id);
    if (!task) {
      if (forgiving && task.error().code == base::ErrorCode::kConflict) continue;
      context.Fail(task.error());
      // Without the daemon each further call would only say the same.
      if (task.error().code == base::ErrorCode::kUnavailable) break;
    } else if (context.json) {
      texts.push_back(std::move(task->text));
    } else {
      Print(
          context,
          "Task " + std::to_string(id) + " is " + base::Printable(task->value.state, 40) +
              (task->value.reason.empty() ? ""
                                          : " (" + base::Printable(task->value.reason, 40) + ")") +
              "\n");
    }
  }
  if (context.json) Print(context, JsonList(texts) + "\n");
}

// What the flags choose among the tasks of one user.
base::Result<std::vector<std::uint64_t>> ChosenOf(Context& context, const ChangeFlags& flags) {
  base::Result<std::vector<std::uint64_t>> arrays;
  if (!flags.arrays.empty()) arrays = ResolveTasks(context, flags.arrays);
  if (!arrays) return std::unexpected(arrays.error());
  TaskQuery query;
  query.user = flags.user.empty() ? OwnUserName() : flags.user;
  query.name = flags.name;
  query.states = flags.states;
  query.limit = SIZE_MAX;
  query.newest_first = true;  // waiting ones first, so that no cancelled task makes room for them
  const auto page = ListTasks(context.client(), query);
  if (!page) return std::unexpected(page.error());
  std::vector<std::uint64_t> ids;
  for (const api::TaskView& task : page->tasks) {
    const bool of_array =
        task.array_id && std::ranges::find(*arrays, *task.array_id) != arrays->end();
    if (arrays->empty() || of_array) ids.push_back(task.id);
  }
  return ids;
}

}  // namespace

void RunChange(Context& context, const std::string& verb, const ChangeFlags& flags) {
  const bool chosen = flags.all || !flags.name.empty() || !flags.states.empty() ||
                      !flags.arrays.empty() || !flags.user.empty();
  if (chosen == !flags.tasks.empty()) {
    return context.Fail({base::ErrorCode::kInvalid,
                         verb + ": expected tasks, or --all, --name, --state, --array or --user"});
  }
  const auto ids = chosen ? ChosenOf(context, flags) : ResolveTasks(context, flags.tasks);
  if (!ids) return context.Fail(ids.error());
  if (ids->empty() && !context.json) Warn(context, verb + ": no such task");
  ChangeEach(context, *ids, chosen,
             [&](std::uint64_t id) { return ChangeTask(context.client(), id, verb); });
}

void RunEdit(Context& context, const EditFlags& flags) {
  if (flags.settings.empty()) {
    return context.Fail({base::ErrorCode::kInvalid, "edit: expected what to change: --time, …"});
  }
  const auto ids = ResolveTasks(context, flags.tasks);
  if (!ids) return context.Fail(ids.error());
  const auto changes = ChangesOf(context, flags.settings);
  if (!changes) return context.Fail(changes.error());
  ChangeEach(context, *ids, false,
             [&](std::uint64_t id) { return EditTask(context.client(), id, *changes); });
}

void RunPriority(Context& context, const std::vector<std::string>& tasks, std::int64_t priority) {
  const auto ids = ResolveTasks(context, tasks);
  if (!ids) return context.Fail(ids.error());
  ChangeEach(context, *ids, false,
             [&](std::uint64_t id) { return SetPriority(context.client(), id, priority); });
}

}  // namespace carma::cli
