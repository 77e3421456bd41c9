// Which task does a process belong to? By cgroup, else by the tree of processes below its shim.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/process_id.h"
#include "core/task.h"

namespace carma::daemon {

class Attribution {
 public:
  // main: the task's first process; its parent, the shim, adopts what double-forks away (it is a
  // subreaper).
  void Add(core::TaskId task, const base::ProcessId& main, const std::string& cgroup);
  void Remove(core::TaskId task);
  // Empty: foreign. Reads /proc for pids not seen before and remembers the answer until Retain()
  // drops the pid.
  std::optional<core::TaskId> Find(pid_t pid);
  // Forgets every remembered pid that is not in the list: a pid absent from one round may be reused
  // later.
  void Retain(const std::vector<pid_t>& pids);
  std::optional<pid_t> MainPid(core::TaskId task) const;

 private:
  struct Root {
    pid_t main = 0;
    pid_t shim = 0;
    std::string cgroup;
  };
  std::optional<core::TaskId> Search(pid_t pid) const;

  std::map<core::TaskId, Root> roots_;
  std::unordered_map<pid_t, core::TaskId> by_pid_;  // main and shim pids
  std::unordered_map<pid_t, std::optional<core::TaskId>> cache_;
};

}  // namespace carma::daemon
