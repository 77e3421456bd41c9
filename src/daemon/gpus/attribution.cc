#include "daemon/gpus/attribution.h"

#include <algorithm>

#include "task/shim/container_command.h"

namespace carma::daemon {
namespace {

// True if `cgroup` is `group` itself or a group below it. False if `group` is empty.
bool IsBelow(const std::string& cgroup, const std::string& group) {
  return !group.empty() && (cgroup == group || cgroup.starts_with(group + "/"));
}

}  // namespace

void Attribution::Add(core::TaskId task, const base::ProcessId& main, const std::string& cgroup,
                      const std::string& containers) {
  Root root{main, {}, cgroup, containers, {}};
  if (const std::optional<base::ProcessStat> stat = base::ReadProcessStat(main.pid);
      stat && stat->id == main) {
    if (const std::optional<base::ProcessStat> shim = base::ReadProcessStat(stat->parent))
      root.shim = shim->id;
  }
  Remove(task);
  roots_[task] = root;
  by_pid_[root.main.pid] = task;
  if (root.shim.pid > 1) by_pid_[root.shim.pid] = task;
}

void Attribution::AddRoot(core::TaskId task, const base::ProcessId& process) {
  const auto found = roots_.find(task);
  if (found == roots_.end()) return;
  found->second.others.push_back(process);
  by_pid_[process.pid] = task;
}

void Attribution::Remove(core::TaskId task) {
  const auto found = roots_.find(task);
  if (found == roots_.end()) return;
  std::vector<pid_t> pids{found->second.main.pid, found->second.shim.pid};
  for (const base::ProcessId& other : found->second.others) pids.push_back(other.pid);
  for (const pid_t pid : pids) {
    const auto by_pid = by_pid_.find(pid);
    if (by_pid != by_pid_.end() && by_pid->second == task) by_pid_.erase(by_pid);
  }
  roots_.erase(found);
  std::erase_if(last_, [&](const auto& entry) { return entry.second.task == task; });
}

std::optional<core::TaskId> Attribution::Find(pid_t pid, const SeenProcess& seen) {
  const auto last = last_.find(pid);
  const bool same =
      last != last_.end() && (seen.line.empty() || seen.line.front() == last->second.process);
  std::optional<core::TaskId> task = seen.line.empty() ? std::nullopt : Search(seen);
  if (!task && same) return last->second.task;
  if (task) last_[pid] = {seen.line.front(), *task};
  if (task) return task;
  last_.erase(pid);
  const auto root = seen.line.empty() ? by_pid_.find(pid) : by_pid_.end();
  return root != by_pid_.end() ? std::optional(root->second) : std::nullopt;
}

std::optional<core::TaskId> Attribution::RootedIn(const base::ProcessId& process) const {
  const auto found = by_pid_.find(process.pid);
  if (found == by_pid_.end()) return std::nullopt;
  const Root& root = roots_.at(found->second);
  // A task's first process may exit before its children do, so its pid may belong to a different
  // process by now.
  const bool same = process == root.main || process == root.shim ||
                    std::ranges::find(root.others, process) != root.others.end();
  return same ? std::optional(found->second) : std::nullopt;
}

std::optional<core::TaskId> Attribution::Search(const SeenProcess& seen) const {
  if (seen.cgroup.size() > 1) {
    for (const auto& [id, root] : roots_) {
      if (IsBelow(seen.cgroup, root.cgroup)) return id;
      if (task::IsInContainerGroup(seen.cgroup, root.containers)) return id;
    }
  }
  for (const base::ProcessId& process : seen.line) {
    if (const std::optional<core::TaskId> task = RootedIn(process)) return task;
  }
  return std::nullopt;
}

void Attribution::Retain(const SeenProcesses& seen) {
  std::erase_if(last_, [&](const auto& entry) { return !seen.contains(entry.first); });
}

bool Attribution::IsGroupOf(core::TaskId task, const std::string& cgroup) const {
  const auto found = roots_.find(task);
  return found != roots_.end() && IsBelow(cgroup, found->second.cgroup);
}

std::optional<pid_t> Attribution::MainPid(core::TaskId task) const {
  const auto found = roots_.find(task);
  return found == roots_.end() ? std::nullopt : std::optional(found->second.main.pid);
}

std::vector<core::TaskId> Attribution::Tasks() const {
  std::vector<core::TaskId> tasks;
  tasks.reserve(roots_.size());
  for (const auto& [task, root] : roots_) tasks.push_back(task);
  return tasks;
}

}  // namespace carma::daemon
