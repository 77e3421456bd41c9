// cancel, hold, release, requeue, priority: changes of tasks.
#include "base/text.h"
#include "cli/calls.h"
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

base::Result<std::vector<std::uint64_t>> UnfinishedOf(Context& context, const std::string& user) {
  TaskQuery query;
  query.user = user.empty() ? OwnUserName() : user;
  query.limit = SIZE_MAX;
  query.newest_first = true;  // waiting ones first, so that no cancelled task makes room for them
  const auto page = ListTasks(context.client(), query);
  if (!page) return std::unexpected(page.error());
  std::vector<std::uint64_t> ids;
  for (const api::TaskView& task : page->tasks) ids.push_back(task.id);
  return ids;
}

}  // namespace

void RunChange(Context& context, const std::string& verb, const ChangeFlags& flags) {
  if (flags.all == !flags.tasks.empty()) {
    return context.Fail({base::ErrorCode::kInvalid, verb + ": expected tasks or --all"});
  }
  const auto ids =
      flags.all ? UnfinishedOf(context, flags.user) : ResolveTasks(context, flags.tasks);
  if (!ids) return context.Fail(ids.error());
  ChangeEach(context, *ids, flags.all,
             [&](std::uint64_t id) { return ChangeTask(context.client(), id, verb); });
}

void RunPriority(Context& context, const std::vector<std::string>& tasks, std::int64_t priority) {
  const auto ids = ResolveTasks(context, tasks);
  if (!ids) return context.Fail(ids.error());
  ChangeEach(context, *ids, false,
             [&](std::uint64_t id) { return SetPriority(context.client(), id, priority); });
}

}  // namespace carma::cli
