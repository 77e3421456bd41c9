// Finds the task of a process, by control group or else by the tree of processes below a task's
// shim.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/process_id.h"
#include "core/values/ids.h"
#include "daemon/loop/background_worker.h"

namespace carma::daemon {

// User and command of a process as in `ps`, printable and short. Empty if the process has ended or
// is not visible (in another container).
struct ProcessFace {
  std::string user;     // user name, or user id if there is no name
  std::string command;  // with arguments, unless /proc hides them
  friend bool operator==(const ProcessFace&, const ProcessFace&) = default;
};

class Attribution {
 public:
  // loop: receives the users and commands that are slow to read; null: the first answer of
  // Describe() is final.
  explicit Attribution(std::shared_ptr<boost::asio::io_context> loop = nullptr);

  // main: the task's first process. Its parent, the shim, is a subreaper and adopts processes that
  // double-fork.
  // containers: the control group of its Docker containers (task::ContainerGroup); empty: none.
  void Add(core::TaskId task, const base::ProcessId& main, const std::string& cgroup,
           const std::string& containers = "");
  // Adds another process whose descendants belong to the task. Ignored if the task was not added.
  void AddRoot(core::TaskId task, const base::ProcessId& process);
  void Remove(core::TaskId task);
  // The task of a process; empty if the process is foreign. Reads /proc and caches the answer as
  // long as the pid belongs to the same process (by its start time) and Retain() keeps it. For a
  // process that has just ended, the cached answer is still valid.
  std::optional<core::TaskId> Find(pid_t pid);
  // The same for a process that may have ended before any look-up. After its end only the main
  // process of a task is still found.
  std::optional<core::TaskId> FindEnded(pid_t pid);
  // The user and command of a process, cached in the same way. At first these are only the user id
  // and the program name. A thread reads what may block (the command line of a process that hangs
  // in a driver, names from a directory service) and completes them later.
  const ProcessFace& Describe(pid_t pid);
  // Drops every cached pid that is not in the list.
  void Retain(const std::vector<pid_t>& pids);
  // Whether `cgroup` is the control group in which the task was started, or a group below it.
  bool IsGroupOf(core::TaskId task, const std::string& cgroup) const;
  std::optional<pid_t> MainPid(core::TaskId task) const;
  // Tasks that were added and not removed, ordered by id.
  std::vector<core::TaskId> Tasks() const;

 private:
  struct Root {
    base::ProcessId main;
    base::ProcessId shim;  // pid 0: unknown
    std::string cgroup;
    std::string containers;
    std::vector<base::ProcessId> others;
  };
  struct Known {
    std::uint64_t start_ticks = 0;  // 0: not readable
    bool searched = false;          // searched among the current tasks
    std::optional<core::TaskId> task;
    ProcessFace face;
    bool face_asked = false;  // the face is complete or requested
  };
  void SearchAgain();
  bool AskWhole(const base::ProcessStat& stat);
  Known& Look(pid_t pid);
  std::optional<core::TaskId> Search(pid_t pid, const std::optional<base::ProcessStat>& stat) const;
  std::optional<core::TaskId> RootedIn(const base::ProcessId& process) const;

  std::map<core::TaskId, Root> roots_;
  // Tasks by the pids of their main processes and shims.
  std::unordered_map<pid_t, core::TaskId> by_pid_;
  std::unordered_map<pid_t, Known> known_;
  std::shared_ptr<boost::asio::io_context> loop_;
  std::optional<BackgroundWorker> reader_;  // created at the first request
};

}  // namespace carma::daemon
