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
#include "core/values/task.h"
#include "daemon/loop/background_worker.h"

namespace carma::daemon {

// Whose process it is and what it runs, as `ps` shows it: printable and short. Empty: hidden from
// us (another container) or gone.
struct ProcessFace {
  std::string user;     // name, or number if it has none
  std::string command;  // with its arguments, unless /proc is mounted so that users do not see them
  friend bool operator==(const ProcessFace&, const ProcessFace&) = default;
};

class Attribution {
 public:
  // loop: where faces arrive that take a while to read; null: what Describe() says first stands.
  explicit Attribution(std::shared_ptr<boost::asio::io_context> loop = nullptr);

  // main: the task's first process; its parent, the shim, adopts what double-forks away (it is a
  // subreaper).
  // containers: control group of its Docker containers (task::ContainerGroup); empty: none.
  void Add(core::TaskId task, const base::ProcessId& main, const std::string& cgroup,
           const std::string& containers = "");
  // Another process whose tree is that task's; nothing where the task was not added.
  void AddRoot(core::TaskId task, const base::ProcessId& process);
  void Remove(core::TaskId task);
  // Empty: foreign. Reads /proc, and remembers the answer for as long as the pid means the same
  // process (its start time tells) and Retain() keeps it. Of a process that has just ended the
  // answer stands.
  std::optional<core::TaskId> Find(pid_t pid);
  // The same of a process that may have ended unseen; then only tasks' first ones are known.
  std::optional<core::TaskId> FindEnded(pid_t pid);
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
    std::string containers;
    std::vector<base::ProcessId> others;
  };
  struct Known {
    std::uint64_t start_ticks = 0;  // 0: hidden
    bool searched = false;          // among the tasks that there are
    std::optional<core::TaskId> task;
    ProcessFace face;
    bool face_asked = false;  // the face is, or will be, as good as it gets
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
  std::optional<BackgroundWorker> reader_;  // from the first question on
};

}  // namespace carma::daemon
