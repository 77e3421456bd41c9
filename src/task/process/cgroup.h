// Control groups (version 2): a task's processes get a group, so that all of them can be ended and
// the kernel's memory kills counted. All of it is optional: without a writable tree, process groups
// and the search for descendants are used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::task {

// Where groups may be made.
struct CgroupBase {
  std::string root;    // mount point of the v2 tree, for example "/sys/fs/cgroup"
  std::string path;    // folder below it in which we may make groups; empty: none
  std::string reason;  // why there is none
  friend bool operator==(const CgroupBase&, const CgroupBase&) = default;
};

// Where this process may make groups for tasks: PlaceForTasks() of its own group in the v2 tree. On
// a machine with both versions only the v2 tree ("unified") counts. Reads /proc and checks the
// rights; changes nothing.
CgroupBase FindCgroupBase();
// Only finds the place, from the texts of /proc/self/cgroup and /proc/self/mountinfo.
CgroupBase ParseCgroupPlace(std::string_view self_cgroup, std::string_view mountinfo);
// The place itself, or no place and a reason if this process may not make groups there.
CgroupBase IfWritable(CgroupBase base);

// The subgroup in which the service manager puts carmad, if it can (DelegateSubgroup= of systemd
// 254). Only then may the service's group control its children: such a group takes no processes
// itself, so carmad could not be restarted in it while tasks run.
inline constexpr std::string_view kDaemonGroup = "carmad.daemon";
// The unit whose group is only for tasks, used with older systemd. Its one process keeps the group
// while no task runs, and moves to the group kKeeperGroup below it.
inline constexpr std::string_view kTasksUnit = "carmad-tasks.service";
inline constexpr std::string_view kKeeperGroup = "carmad.keeper";
// Where tasks get their groups if carmad is in that place: the group above carmad's, or that of
// kTasksUnit; if neither exists or is writable, the place itself.
CgroupBase PlaceForTasks(CgroupBase daemon);

// Which limits the kernel enforces for groups made in a place.
struct CgroupControls {
  bool processes = false;
  bool cpu = false;    // time on the cores
  bool cores = false;  // which of them
  bool memory = false;
  std::string why_not;  // if one is missing: one clause
  friend bool operator==(const CgroupControls&, const CgroupControls&) = default;
};
// Enables all available controllers of that place. This is impossible in a group with processes;
// the process of kTasksUnit is moved away first.
CgroupControls EnableControls(const CgroupBase& base);

// One task's group.
class TaskCgroup {
 public:
  // Makes <base>/<name>. Errors: the system's, for example when the tree is read-only.
  static Result<TaskCgroup> Create(const std::string& base, const std::string& name);
  const std::string& path() const { return path_; }
  // The group's folder, for clone3(CLONE_INTO_CGROUP): a child born into its group costs nothing,
  // while moving a living process makes the kernel wait for all processors (tens of ms were seen).
  int folder_fd() const { return folder_.get(); }
  // Moves the calling process into the group, if it could not be created there.
  static bool Enter(int folder_fd);
  // Limits the number of processes and threads. False: the kernel does not count them here.
  bool LimitProcesses(std::int64_t most) const;
  // Sets the group's share of the cores when all are busy: a group that asks for no cores counts as
  // one CPU, and no group counts as more than 100.
  bool WeighCpus(int cpus) const;
  // Limits the group's CPU time to that of this many cores.
  bool CapCpus(int cpus) const;
  // Restricts the group to these cores, as in base/cpu_list.h; empty: all.
  bool ConfineTo(const std::string& cores) const { return ConfineTo(path_, cores); }
  // Limits the group's memory, without swap; if it is exceeded, all processes of the group are
  // killed together.
  bool LimitMemory(std::int64_t mib) const;
  // Memory kills so far, counted by the group or, without a memory controller, by the group above.
  // Empty: not counted.
  std::optional<std::int64_t> OomKills() const;
  // True if that count is the group's own.
  bool CountsOomKills() const;
  // Kills all processes at once, including groups below. False: the kernel (before 5.14) cannot.
  bool Kill() const { return KillCgroup(path_); }
  bool Remove() const { return RemoveCgroup(path_); }

  static bool ConfineTo(const std::string& path, const std::string& cores);
  // The same by path, for a group whose shim is gone.
  static bool KillCgroup(const std::string& path);
  // Removes it and its subgroups; false while processes live there.
  static bool RemoveCgroup(const std::string& path);

 private:
  TaskCgroup(std::string path, base::UniqueFd folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}

  std::string path_;
  base::UniqueFd folder_;
};

// Name of an attempt's group. The shim's pid makes it unique if two daemons share a base.
std::string CgroupName(std::uint64_t task, int attempt, pid_t shim);

}  // namespace carma::task
