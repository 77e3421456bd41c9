// Control groups (version 2): a task's processes in a group of their own, so that none can hide
// from the end and the kernel's memory kills can be counted. Everything here is optional: where
// there is no writable tree, process groups and the search for descendants do the work.
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

// Where this process may put tasks: PlaceForTasks() of its own group in the v2 tree. On a machine
// with both versions only the v2 tree ("unified") counts. Reads /proc and tries the rights; changes
// nothing.
CgroupBase FindCgroupBase();
// The place alone, from the texts of /proc/self/cgroup and /proc/self/mountinfo.
CgroupBase ParseCgroupPlace(std::string_view self_cgroup, std::string_view mountinfo);
// The place as it is, or none with the reason that this process may make no groups there.
CgroupBase IfWritable(CgroupBase base);

// The group in which the service manager puts carmad below its service's own, where it can
// (DelegateSubgroup= of systemd 254). Only then may the service's group control its children: a
// group that does takes no process itself, and carmad could not be started again beside running
// tasks.
inline constexpr std::string_view kDaemonGroup = "carmad.daemon";
// The unit beside carmad's whose group is for tasks alone, where systemd is older. Its one process
// keeps the group while no task runs, and moves to the group kKeeperGroup below it.
inline constexpr std::string_view kTasksUnit = "carmad-tasks.service";
inline constexpr std::string_view kKeeperGroup = "carmad.keeper";
// Where tasks get their groups if carmad is in that place: the group above the daemon's, or the one
// of kTasksUnit beside it; neither is there or ours to write: the place as it is.
CgroupBase PlaceForTasks(CgroupBase daemon);

// What the kernel limits of the groups that are made in a place.
struct CgroupControls {
  bool processes = false;
  bool cpu = false;    // time on the cores
  bool cores = false;  // which of them
  bool memory = false;
  std::string why_not;  // where one of them is missing: one clause
  friend bool operator==(const CgroupControls&, const CgroupControls&) = default;
};
// Switches on whatever that place has, where it is not on already. A group with processes of its
// own cannot; that of kTasksUnit has its one moved out of the way.
CgroupControls EnableControls(const CgroupBase& base);

// One task's group.
class TaskCgroup {
 public:
  // Makes <base>/<name>. Errors: the system's, for example when the tree is read-only.
  static base::Result<TaskCgroup> Create(const std::string& base, const std::string& name);
  const std::string& path() const { return path_; }
  // The group's folder, for clone3(CLONE_INTO_CGROUP): a child born into its group costs nothing,
  // while moving a living process makes the kernel wait for all processors (tens of ms were seen).
  int folder_fd() const { return folder_.get(); }
  // Moves the calling process, where it could not be born into the group.
  static bool Enter(int folder_fd);
  // No more processes and threads than these at once. False: the tree does not count them.
  bool LimitProcesses(std::int64_t most) const;
  // Its part of the cores where all are busy: that of a group which asks for none is that of one
  // CPU, and nobody's is more than that of 100.
  bool WeighCpus(int cpus) const;
  // Never more time than that of so many cores.
  bool CapCpus(int cpus) const;
  // Only on these cores, as base/cpu_list.h writes them; empty: on all.
  bool ConfineTo(const std::string& cores) const { return ConfineTo(path_, cores); }
  // No more memory than that, and no swap; if it runs out all of its processes are killed together.
  bool LimitMemory(std::int64_t mib) const;
  // Memory kills so far, counted by the group or, where it has no memory controller, by the group
  // above. Empty: nobody counts.
  std::optional<std::int64_t> OomKills() const;
  // True if that count is the group's own.
  bool CountsOomKills() const;
  // All processes at once, groups below included. False: the kernel (before 5.14) cannot.
  bool Kill() const { return KillCgroup(path_); }
  bool Remove() const { return RemoveCgroup(path_); }

  static bool ConfineTo(const std::string& path, const std::string& cores);
  // The same by path, for a group whose shim is gone.
  static bool KillCgroup(const std::string& path);
  // With the groups that the task made in it; false while processes live there.
  static bool RemoveCgroup(const std::string& path);

 private:
  TaskCgroup(std::string path, base::UniqueFd folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}

  std::string path_;
  base::UniqueFd folder_;
};

// Name of an attempt's group. The shim's pid keeps two daemons that share a base apart.
std::string CgroupName(std::uint64_t task, int attempt, pid_t shim);

}  // namespace carma::task
