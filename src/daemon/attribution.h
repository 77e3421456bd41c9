// Which task does a process belong to? By cgroup, else by the tree of processes below its shim.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/process_id.h"
#include "core/task.h"

namespace carma::daemon {

class Worker;

// Whose process it is and what it runs, as `ps` shows it: printable and short. Empty: hidden from
// us (another container) or gone.
struct ProcessFace {
  std::string user;     // name, or number if it has none
  std::string command;  // with its arguments, unless /proc is mounted so that users do not see them
  friend bool operator==(const ProcessFace&, const ProcessFace&) = default;
};

class Attribution {
 public:
  Attribution();
  ~Attribution();
  Attribution(const Attribution&) = delete;
  Attribution& operator=(const Attribution&) = delete;

  // main: the task's first process; its parent, the shim, adopts what double-forks away (it is a
  // subreaper).
  void Add(core::TaskId task, const base::ProcessId& main, const std::string& cgroup);
  void Remove(core::TaskId task);
  // Empty: foreign. Reads /proc, and remembers the answer for as long as the pid means the same
  // process (its start time tells) and Retain() keeps it. Of a process that has just ended the
  // answer stands.
  std::optional<core::TaskId> Find(pid_t pid);
  // The face of a process, remembered in the same way. At first the number of its user and the name
  // of its program; what may keep a reader waiting is read by a thread and told when it is there:
  // the command line of a process that hangs in a driver, the names of a directory service.
  const ProcessFace& Describe(pid_t pid);
  // Forgets every remembered pid that is not in the list.
  void Retain(const std::vector<pid_t>& pids);
  std::optional<pid_t> MainPid(core::TaskId task) const;
  // Those that were added and not removed, by id.
  std::vector<core::TaskId> Tasks() const;

 private:
  struct Root {
    base::ProcessId main;
    base::ProcessId shim;  // pid 0: not known
    std::string cgroup;
  };
  struct WholeFace;
  struct Known {
    std::uint64_t start_ticks = 0;  // 0: hidden
    bool searched = false;          // among the tasks that there are
    std::optional<core::TaskId> task;
    std::optional<ProcessFace> face;
    std::shared_ptr<WholeFace> whole;  // while it is being read; shared with the reader
  };
  std::shared_ptr<WholeFace> AskWhole(const base::ProcessStat& stat);
  Known& Look(pid_t pid);
  std::optional<core::TaskId> Search(pid_t pid, const std::optional<base::ProcessStat>& stat) const;
  std::optional<core::TaskId> RootedIn(const base::ProcessId& process) const;

  std::map<core::TaskId, Root> roots_;
  std::unordered_map<pid_t, core::TaskId> by_pid_;  // main and shim pids
  std::unordered_map<pid_t, Known> known_;
  std::unique_ptr<Worker> reader_;           // from the first question on
  std::shared_ptr<std::atomic<int>> asked_;  // of the reader and not answered; shared with it
};

}  // namespace carma::daemon
