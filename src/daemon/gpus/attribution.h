// Which task does a process belong to? By cgroup, else by the tree of processes below its shim.
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

// User and command of a process as in `ps`, printable and short. Empty: the process is not visible
// (another container) or gone.
struct ProcessFace {
  std::string user;     // name, or number if it has none
  std::string command;  // with arguments, unless /proc hides them
  friend bool operator==(const ProcessFace&, const ProcessFace&) = default;
};

class Attribution {
 public:
  // loop: receives faces that are slow to read; null: the first answer of Describe() is final.
  explicit Attribution(std::shared_ptr<boost::asio::io_context> loop = nullptr);

  // main: the task's first process; its parent, the shim, adopts what double-forks away (it is a
  // subreaper).
  // containers: control group of its Docker containers (task::ContainerGroup); empty: none.
  void Add(core::TaskId task, const base::ProcessId& main, const std::string& cgroup,
           const std::string& containers = "");
  // Another process whose descendants belong to that task; ignored if the task was not added.
  void AddRoot(core::TaskId task, const base::ProcessId& process);
  void Remove(core::TaskId task);
  // The task of a process; empty: foreign. Reads /proc and caches the answer while the pid is the
  // same process (by its start time) and Retain() keeps it. For a process that has just ended the
  // cached answer is still valid.
  std::optional<core::TaskId> Find(pid_t pid);
  // The same for a process that may have ended unseen; if it has, only main processes of tasks are
  // still found.
  std::optional<core::TaskId> FindEnded(pid_t pid);
  // The face of a process, cached in the same way. At first it has only the user id and the program
  // name. A thread reads what may block (the command line of a process that hangs in a driver,
  // names from a directory service) and updates the face later.
  const ProcessFace& Describe(pid_t pid);
  // Drops every cached pid that is not in the list.
  void Retain(const std::vector<pid_t>& pids);
  // Whether `cgroup` is the control group in which the task was started, or one below it.
  bool IsGroupOf(core::TaskId task, const std::string& cgroup) const;
  std::optional<pid_t> MainPid(core::TaskId task) const;
  // Tasks that were added and not removed, by id.
  std::vector<core::TaskId> Tasks() const;

 private:
  struct Root {
    base::ProcessId main;
    base::ProcessId shim;  // pid 0: not known
    std::string cgroup;
    std::string containers;
    std::vector<base::ProcessId> others;
  };
  struct Known {
    std::uint64_t start_ticks = 0;  // 0: hidden
    bool searched = false;          // among the current tasks
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
  std::unordered_map<pid_t, core::TaskId> by_pid_;  // main and shim pids
  std::unordered_map<pid_t, Known> known_;
  std::shared_ptr<boost::asio::io_context> loop_;
  std::optional<BackgroundWorker> reader_;  // created at the first request
};

}  // namespace carma::daemon
