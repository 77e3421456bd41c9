// Finds the task that a process belongs to, by its control group or by the process tree below the
// task's shim.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/process_id.h"
#include "core/values/ids.h"
#include "daemon/gpus/seen_processes.h"

namespace carma::daemon {

class Attribution {
 public:
  // main: the task's first process. Its parent, the shim, is a subreaper, so it adopts processes
  // that double-fork.
  //
  // containers: the control group of the task's Docker containers (task::ContainerGroup), or empty.
  void Add(core::TaskId task, const base::ProcessId& main, const std::string& cgroup,
           const std::string& containers = "");
  // Adds another process whose descendants belong to the task. Ignored if the task was not added.
  void AddRoot(core::TaskId task, const base::ProcessId& process);
  void Remove(core::TaskId task);
  // The task that a process belongs to; empty if there is none. The result is remembered until
  // Retain() drops it, even if the process or its ancestors have exited. A process that exited
  // before the first call is found only if it was passed to Add() or AddRoot(), or is a shim.
  std::optional<core::TaskId> Find(pid_t pid, const SeenProcess& seen);
  // Like the other Find(), but reads the process from /proc now.
  std::optional<core::TaskId> Find(pid_t pid) { return Find(pid, SeeProcess(pid)); }
  // Drops the remembered results for all pids that are not in `seen`.
  void Retain(const SeenProcesses& seen);
  // True if `cgroup` is the task's own control group or a group below it.
  bool IsGroupOf(core::TaskId task, const std::string& cgroup) const;
  std::optional<pid_t> MainPid(core::TaskId task) const;
  // All tasks that were added and not yet removed, ordered by id.
  std::vector<core::TaskId> Tasks() const;

 private:
  struct Root {
    base::ProcessId main;
    base::ProcessId shim;  // pid 0 if unknown
    std::string cgroup;
    std::string containers;
    std::vector<base::ProcessId> others;
  };
  struct Answer {
    base::ProcessId process;
    core::TaskId task{};
  };
  std::optional<core::TaskId> Search(const SeenProcess& seen) const;
  std::optional<core::TaskId> RootedIn(const base::ProcessId& process) const;

  std::map<core::TaskId, Root> roots_;
  // Maps the pid of each main process, shim and process passed to AddRoot() to its task.
  std::unordered_map<pid_t, core::TaskId> by_pid_;
  std::unordered_map<pid_t, Answer> last_;  // the latest results of Find(), by pid
};

}  // namespace carma::daemon
