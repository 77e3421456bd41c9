// cancel, hold, release, requeue, priority, edit: the verbs that change tasks.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ranges>
#include <set>
#include <span>

#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/changes.h"
#include "cli/client/checks.h"
#include "cli/client/verbs.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMostLines = 20;  // applies to changed and unchanged tasks separately

constexpr const char* kChanged = "changed and ";

// Reports the result for each task in order. Only the first kMostLines tasks are listed; the rest
// are counted. With --json, all results are printed at the end.
class Told {
 public:
  explicit Told(Context& context, std::string how = "") : context_(context), how_(std::move(how)) {}
  void Changed(const api::TaskView& task) {
    if (context_.json) {
      texts_.push_back(base::DumpJson(api::ToJson(task)));
      return;
    }
    if (++changed_ > kMostLines) return;
    const std::string reason =
        task.reason.empty() ? "" : fmt::format(" ({})", base::Printable(task.reason, 40));
    const bool own = task.user.empty() || task.user == OwnUserName();
    const std::string owner = own ? "" : " of " + base::Printable(task.user, 40);
    Print(context_, fmt::format("Task {}{} is {}{}{}\n", task.id, owner, how_,
                                base::Printable(task.state, 40), reason));
  }
  // With `forgiving`, ignores tasks that have ended in the meantime or that carmad has deleted.
  void Refused(const base::Error& why, bool forgiving) {
    if (forgiving && (why.code == ErrorCode::kConflict || why.code == ErrorCode::kNotFound)) return;
    if (++refused_ <= kMostLines) context_.Fail(why);
  }
  void End() {
    if (context_.json) Print(context_, JsonList(texts_) + "\n");
    if (changed_ > kMostLines)
      Print(context_, fmt::format("... and {} more\n", changed_ - kMostLines));
    if (refused_ > kMostLines)
      Warn(context_, base::Counted(refused_ - kMostLines, "more task") +
                         (refused_ - kMostLines == 1 ? " was" : " were") + " not changed");
  }

 private:
  Context& context_;
  const std::string how_;  // text before the state
  std::vector<std::string> texts_;
  std::size_t changed_ = 0, refused_ = 0;
};

// Changes each task, continuing after failures. how: text before the task's state, such as
// "changed and " in "Task 4 is changed and queued".
void ChangeEach(Context& context, const std::vector<std::uint64_t>& ids, const std::string& how,
                const std::function<Called<api::TaskView>(std::uint64_t id)>& change) {
  Told told(context, how);
  for (const std::uint64_t id : ids) {
    const auto task = change(id);
    if (task) {
      told.Changed(task->value);
      continue;
    }
    told.Refused(task.error(), false);
    // Stops if the daemon is unreachable, because all further calls would fail too.
    if (task.error().code == ErrorCode::kUnavailable) break;
  }
  told.End();
}

// Changes all tasks with as few requests as possible.
void ChangeAll(Context& context, std::span<const std::uint64_t> ids, const std::string& verb,
               bool forgiving) {
  Told told(context);
  bool changed = false;
  while (!ids.empty()) {
    const auto some = ids.first(std::min(ids.size(), api::kMostChanges));
    ids = ids.subspan(some.size());
    const auto changes = ChangeTasks(context.client(), some, verb);
    if (!changes) {
      told.Refused(changes.error(), false);
      break;
    }
    changed |= !changes->value.tasks.empty();
    for (const api::TaskView& task : changes->value.tasks) told.Changed(task);
    for (const api::RefusedChange& each : changes->value.refused)
      told.Refused({base::ParseErrorCode(each.code), each.message}, forgiving);
  }
  told.End();
  if (forgiving && !changed && context.exit_code == 0)
    Warn(context, verb + ": nothing was changed; see carma show");
}

// True if `last` really is the last task of the array. A missing next task does not prove this:
// carmad deletes tasks that ended long ago.
bool EndsArray(Context& context, std::uint64_t array, std::uint64_t last) {
  if (const auto next = GetTask(context.client(), last + 1)) return next->value.array_id != array;
  const auto newest =
      ListTasks(context.client(), {.states = "all", .limit = 1, .newest_first = true});
  return newest && (newest->tasks.empty() || newest->tasks[0].id <= last);
}

// The tasks of these arrays in order, including ended tasks; empty if some may be missing (see
// EndsArray).
Result<std::vector<std::uint64_t>> ByNumber(Context& context,
                                            const std::set<std::uint64_t>& arrays) {
  std::vector<std::uint64_t> ids;
  for (const std::uint64_t array : arrays) {
    const auto some = CARMA_TRY(ResolveTasks(context, {fmt::format("{}_*", array)}));
    if (!EndsArray(context, array, some.back())) return std::vector<std::uint64_t>();
    ids.insert(ids.end(), some.begin(), some.end());
  }
  return ids;
}

// Returns the tasks of one user that the flags select. ended_too: the result may include ended
// tasks of an array.
Result<std::vector<std::uint64_t>> ChosenOf(Context& context, const ChangeFlags& flags,
                                            bool newest_first, bool ended_too) {
  const std::string user = flags.user.empty() ? OwnUserName() : flags.user;
  std::set<std::uint64_t> arrays, own;
  if (!flags.arrays.empty()) {
    const auto named = CARMA_TRY(ResolveTasks(context, flags.arrays));
    for (const std::uint64_t id : named) {
      const auto task = CARMA_TRY(GetTask(context.client(), id));
      if (!task.value.array_id) return Invalid("--array: task {} is not part of an array", id);
      arrays.insert(*task.value.array_id);
      if (task.value.user == user) own.insert(*task.value.array_id);
    }
  }
  // An array's tasks have consecutive numbers, so they need not be listed. Listing thousands of
  // waiting tasks would take the daemon as long as changing them. If there is only one task, it is
  // listed nevertheless, because it must be omitted if it has ended and can no longer be changed.
  if (ended_too && flags.name.empty() && flags.states.empty()) {
    auto ids = CARMA_TRY(ByNumber(context, own));
    if (newest_first) std::ranges::reverse(ids);
    if (ids.size() > 1) return ids;
  }
  const auto page = CARMA_TRY(ListTasks(context.client(), {.states = flags.states,
                                                           .user = user,
                                                           .name = flags.name,
                                                           .limit = SIZE_MAX,
                                                           .newest_first = newest_first}));
  std::vector<std::uint64_t> ids;
  for (const api::TaskView& task : page.tasks) {
    const bool of_array = task.array_id && arrays.contains(*task.array_id);
    if (arrays.empty() || of_array) ids.push_back(task.id);
  }
  return ids;
}

// Warns about cancelled tasks that depended on one of these tasks, directly or indirectly. They
// were cancelled because that task did not end as required, and they stay cancelled.
void WarnOfCancelledDependents(Context& context, std::span<const std::uint64_t> requeued) {
  const auto page = ListTasks(
      context.client(), {.states = "cancelled", .user = "", .limit = 1000, .newest_first = true});
  if (!page) return;
  std::set<std::string> again;
  std::vector<std::string> dependents;
  for (const std::uint64_t id : requeued) again.insert(std::to_string(id));
  // Starts with the oldest task, because tasks depend only on older ones.
  for (const api::TaskView& task : page->tasks | std::views::reverse) {
    const bool depends = std::ranges::any_of(task.dependencies, [&](const std::string& each) {
      return again.contains(each.substr(each.find(':') + 1));
    });
    const std::string id = std::to_string(task.id);
    if (task.reason != "DependencyNeverMet" || !depends || !again.insert(id).second) continue;
    if (dependents.size() < kMostLines) dependents.push_back(id);
  }
  if (dependents.empty()) return;
  Warn(context, "dependent tasks stay cancelled; to restart them too, run: carma requeue " +
                    base::Join(dependents, " "));
}

// Warns about GPU options for a task without GPUs, as submit does.
void WarnOfGpuOptions(const Context& context, const api::TaskView& task, const Settings& settings) {
  if (task.gpus > 0) return;
  for (const auto& [option, value] : settings) {
    if (IsGpuOption(option))
      Warn(context, fmt::format("--{} has no effect: task {} has --gpus 0", option, task.id));
  }
}

}  // namespace

Result<Unit> RunChange(Context& context, const std::string& verb, const ChangeFlags& flags) {
  const bool chosen = flags.all || !flags.name.empty() || !flags.states.empty() ||
                      !flags.arrays.empty() || !flags.user.empty();
  if (chosen == !flags.tasks.empty())
    return Invalid("{}: expected tasks, or --all, --name, --state, --array or --user", verb);
  // The newest task is changed first, so that cancelling one task does not let another task in the
  // list start. Released tasks keep their order.
  const bool newest_first = verb != "release";
  auto ids = CARMA_TRY(chosen ? ChosenOf(context, flags, newest_first, verb != "requeue")
                              : ResolveTasks(context, flags.tasks, Last::kArray));
  // For a whole array, tasks that have already ended are ignored.
  const auto names_array = [](const std::string& word) {
    return word == "@" || word.ends_with("_*");
  };
  const bool array = ids.size() > 1 && !chosen && std::ranges::all_of(flags.tasks, names_array);
  if (array && newest_first) std::ranges::reverse(ids);
  if (ids.empty() && !context.json)
    Warn(context, verb + ": no waiting or running task matches; nothing was changed");
  if (ids.size() > 1) {
    ChangeAll(context, ids, verb, chosen || array);
  } else {
    ChangeEach(context, ids, "",
               [&](std::uint64_t id) { return ChangeTask(context.client(), id, verb); });
  }
  if (verb == "requeue" && !ids.empty() && context.exit_code == 0)
    WarnOfCancelledDependents(context, ids);
  return Unit{};
}

Result<Unit> RunEdit(Context& context, const EditFlags& flags) {
  if (flags.settings.empty()) return Invalid("edit: expected a change such as --time 2h");
  const auto changes = CARMA_TRY(ChangesOf(context, flags.settings));
  const auto ids = CARMA_TRY(ResolveTasks(context, flags.tasks, Last::kArray));
  ChangeEach(context, ids, kChanged, [&](std::uint64_t id) {
    auto task = EditTask(context.client(), id, changes);
    if (task) WarnOfGpuOptions(context, task->value, flags.settings);
    if (!task) task.error() = NamedAsTyped(std::move(task.error()));
    return task;
  });
  return Unit{};
}

Result<Unit> RunPriority(Context& context, const std::vector<std::string>& tasks,
                         std::int64_t priority) {
  const auto ids = CARMA_TRY(ResolveTasks(context, tasks, Last::kArray));
  ChangeEach(context, ids, kChanged,
             [&](std::uint64_t id) { return SetPriority(context.client(), id, priority); });
  return Unit{};
}

}  // namespace carma::cli
