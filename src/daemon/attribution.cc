#include "daemon/attribution.h"

#include <algorithm>

#include "base/file.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

// Deeper trees than this do not occur; the bound ends a walk over a tree that changes while we read
// it.
constexpr int kMaxAncestors = 64;

// Path of the process in the cgroup v2 hierarchy ("0::/path"); empty without one.
std::string CgroupOf(pid_t pid) {
  const base::Result<std::string> text =
      base::ReadFile("/proc/" + std::to_string(pid) + "/cgroup", 65536);
  if (!text) return "";
  for (std::string_view line : base::Split(*text, '\n')) {
    if (line.starts_with("0::")) return std::string(line.substr(3));
  }
  return "";
}

}  // namespace

void Attribution::Add(core::TaskId task, const base::ProcessId& main, const std::string& cgroup) {
  Root root{main.pid, 0, cgroup};
  if (const std::optional<base::ProcessStat> stat = base::ReadProcessStat(main.pid);
      stat && stat->id == main) {
    root.shim = stat->parent;
  }
  Remove(task);
  roots_[task] = root;
  by_pid_[root.main] = task;
  if (root.shim > 1) by_pid_[root.shim] = task;
  cache_.clear();  // a pid that was foreign a moment ago may be this task's
}

void Attribution::Remove(core::TaskId task) {
  const auto found = roots_.find(task);
  if (found == roots_.end()) return;
  for (pid_t pid : {found->second.main, found->second.shim}) {
    const auto known = by_pid_.find(pid);
    if (known != by_pid_.end() && known->second == task) by_pid_.erase(known);
  }
  roots_.erase(found);
  std::erase_if(cache_, [&](const auto& entry) { return entry.second == task; });
}

std::optional<core::TaskId> Attribution::Find(pid_t pid) {
  const auto cached = cache_.find(pid);
  if (cached != cache_.end()) return cached->second;
  const std::optional<core::TaskId> task = Search(pid);
  cache_[pid] = task;
  return task;
}

std::optional<core::TaskId> Attribution::Search(pid_t pid) const {
  if (roots_.empty()) return std::nullopt;
  if (const std::string cgroup = CgroupOf(pid); cgroup.size() > 1) {
    for (const auto& [task, root] : roots_) {
      if (!root.cgroup.empty() && (cgroup == root.cgroup || cgroup.starts_with(root.cgroup + "/")))
        return task;
    }
  }
  for (int depth = 0; depth < kMaxAncestors && pid > 1; ++depth) {
    if (const auto found = by_pid_.find(pid); found != by_pid_.end()) return found->second;
    const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
    if (!stat) return std::nullopt;
    pid = stat->parent;
  }
  return std::nullopt;
}

void Attribution::Retain(const std::vector<pid_t>& pids) {
  std::erase_if(cache_, [&](const auto& entry) {
    return std::find(pids.begin(), pids.end(), entry.first) == pids.end();
  });
}

std::optional<pid_t> Attribution::MainPid(core::TaskId task) const {
  const auto found = roots_.find(task);
  return found == roots_.end() ? std::nullopt : std::optional(found->second.main);
}

}  // namespace carma::daemon
