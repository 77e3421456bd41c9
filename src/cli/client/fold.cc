#include "cli/client/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <tuple>

#include "base/text.h"
#include "cli/ids.h"
#include "core/values/task_state.h"

namespace carma::cli {
namespace {

using api::TaskView;

using Alike = std::tuple<std::uint64_t, std::string, std::string, std::string>;

std::optional<Alike> KeyOf(const TaskView& task) {
  const std::optional<core::TaskState> state = core::ParseTaskState(task.state);
  if (!task.array_id || (state && core::HoldsGpus(*state))) return std::nullopt;
  return Alike{*task.array_id, task.state, task.reason, task.name};
}

// Seconds in use by the last attempt; empty while it has not ended.
std::optional<std::int64_t> RunTime(const TaskView& task) {
  if (!task.launched_ms || !task.ended_ms) return std::nullopt;
  return (*task.ended_ms - *task.launched_ms) / 1000;
}

// Adds what another task of the row has: all GPUs, and no time if the times differ.
void Merge(const TaskView& task, TaskView& row) {
  for (const std::int64_t gpu : task.gpu_indices) {
    if (std::ranges::find(row.gpu_indices, gpu) == row.gpu_indices.end())
      row.gpu_indices.push_back(gpu);
  }
  std::ranges::sort(row.gpu_indices);
  if (RunTime(task) != RunTime(row)) row.ended_ms.reset();
}

std::uint64_t LastDependency(const TaskView& task) {
  std::uint64_t last = 0;
  for (const std::string& dependency : task.dependencies) {
    const auto number =
        base::ParseInt(std::string_view(dependency).substr(dependency.find(':') + 1));
    if (number && *number > 0) last = std::max(last, static_cast<std::uint64_t>(*number));
  }
  return last;
}

}  // namespace

FoldedTasks FoldArrays(const std::vector<TaskView>& tasks, bool cut) {
  std::map<Alike, std::vector<std::uint64_t>> groups;
  for (const TaskView& task : tasks) {
    if (const auto key = KeyOf(task)) groups[*key].push_back(task.id);
  }
  FoldedTasks folded;
  std::map<Alike, std::size_t> shown;  // at which row
  for (const TaskView& task : tasks) {
    const auto key = KeyOf(task);
    if (key) {
      const auto [at, is_new] = shown.emplace(*key, folded.tasks.size());
      if (!is_new) {
        Merge(task, folded.tasks[at->second]);
        continue;
      }
    }
    folded.tasks.push_back(task);
    if (!key || groups[*key].size() < 2) continue;
    std::vector<std::uint64_t>& ids = groups[*key];
    std::ranges::sort(ids);
    folded.ids[task.id] = RangesText(ids);
    TaskView& row = folded.tasks.back();
    const bool goes_on = cut && KeyOf(tasks.back()) == key;
    row.name += fmt::format(" x{}{}", ids.size(), goes_on ? "+" : "");
    // Each task of the row has its own.
    row.array_index.reset();
    row.parameters.clear();
  }
  return folded;
}

std::vector<TaskView> AsTree(const std::vector<TaskView>& tasks) {
  std::set<std::uint64_t> listed;
  for (const TaskView& task : tasks) listed.insert(task.id);
  std::map<std::uint64_t, std::vector<const TaskView*>> below;  // 0: of no task
  for (const TaskView& task : tasks) {
    const std::uint64_t above = LastDependency(task);
    below[listed.contains(above) && above < task.id ? above : 0].push_back(&task);
  }
  std::vector<TaskView> tree;
  const std::function<void(std::uint64_t, std::size_t)> add = [&](std::uint64_t above,
                                                                  std::size_t depth) {
    for (const TaskView* task : below[above]) {
      tree.push_back(*task);
      if (depth > 0) tree.back().name = std::string(3 * (depth - 1), ' ') + "└─ " + task->name;
      add(task->id, depth + 1);
    }
  };
  add(0, 0);
  return tree;
}

}  // namespace carma::cli
