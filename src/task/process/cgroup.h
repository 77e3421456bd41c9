// Control groups (version 2). Each task's processes are in a group, so that they can all be killed
// and the kernel's OOM kills can be counted. Groups are optional: without a writable tree, process
// groups and a search for descendants are used instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::task {

// A cgroup in which this process may create groups.
struct CgroupBase {
  std::string root;    // mount point of the v2 tree, for example "/sys/fs/cgroup"
  std::string path;    // folder below `root` where this process may make groups; empty: none
  std::string reason;  // why `path` is empty
  friend bool operator==(const CgroupBase&, const CgroupBase&) = default;
};

// Finds the cgroup in which this process may create groups for tasks, by passing its own cgroup to
// PlaceForTasks(). Uses only version 2, even if the machine also has version 1. Reads /proc and
// checks permissions, but changes nothing.
CgroupBase FindCgroupBase();
// Finds this process's own cgroup in the contents of /proc/self/cgroup and /proc/self/mountinfo.
// Does not check permissions.
CgroupBase ParseCgroupPlace(std::string_view self_cgroup, std::string_view mountinfo);
// Returns `base` if this process may create groups there. Otherwise returns a CgroupBase with an
// empty path and the reason.
CgroupBase IfWritable(CgroupBase base);

// The subgroup in which a service manager with DelegateSubgroup= (systemd 254) starts carmad. The
// kernel accepts no processes in a group that controls its children, as the service's group does
// while tasks run. Without this subgroup, a restarted carmad could not enter the service's group.
inline constexpr std::string_view kDaemonGroup = "carmad.daemon";
// With older systemd, the unit whose cgroup contains the tasks. Its single process keeps the cgroup
// alive while no task is running, and is moved to the subgroup kKeeperGroup.
inline constexpr std::string_view kTasksUnit = "carmad-tasks.service";
inline constexpr std::string_view kKeeperGroup = "carmad.keeper";
// Chooses the cgroup for the tasks' groups. daemon: carmad's own cgroup. Returns its parent if
// carmad is in kDaemonGroup. Otherwise returns the cgroup of kTasksUnit, or `daemon` if that cgroup
// does not exist or is not writable.
CgroupBase PlaceForTasks(CgroupBase daemon);

// Limits that the kernel enforces for groups created in a CgroupBase.
struct CgroupControls {
  bool processes = false;
  bool cpu = false;    // CPU time
  bool cores = false;  // restriction to certain cores
  bool memory = false;
  std::string why_not;  // why a limit is missing, as one clause
  friend bool operator==(const CgroupControls&, const CgroupControls&) = default;
};
// Enables all available controllers in `base`. The kernel refuses this for a group that contains
// processes, so the process of kTasksUnit is moved out first.
CgroupControls EnableControls(const CgroupBase& base);

// One task's group.
class TaskCgroup {
 public:
  // Creates <base>/<name>. Returns a system error on failure, for example if the tree is read-only.
  static Result<TaskCgroup> Create(const std::string& base, const std::string& name);
  const std::string& path() const { return path_; }
  // The group's folder, for clone3(CLONE_INTO_CGROUP). Creating a child inside its group costs
  // nothing, but moving a running process makes the kernel wait for all processors (tens of ms were
  // observed).
  int folder_fd() const { return folder_.get(); }
  // Moves the calling process into the group, in case it could not be created inside the group.
  static bool Enter(int folder_fd);
  // Limits the number of processes and threads. Returns false if the kernel does not count
  // processes for this group.
  bool LimitProcesses(std::int64_t most) const;
  // Sets the group's share of the CPU time in proportion to `cpus` (at most 100); it matters only
  // when all cores are busy. Without this call, the group counts as one CPU.
  bool WeighCpus(int cpus) const;
  // Limits the group's CPU time to that of `cpus` cores.
  bool CapCpus(int cpus) const;
  // Restricts the group to these cores, for example "0-3,8" (base/cpu_list.h); empty means all
  // cores.
  bool ConfineTo(const std::string& cores) const { return ConfineTo(path_, cores); }
  // Limits the group's memory and gives it no swap. If the limit is exceeded, all processes of the
  // group are killed together.
  bool LimitMemory(std::int64_t mib) const;
  // OOM kills so far, counted by the group or, without a memory controller, by its parent group.
  // Empty if they are not counted.
  std::optional<std::int64_t> OomKills() const;
  // Returns true if OomKills() counts only the kills in this group, rather than in its parent
  // group.
  bool CountsOomKills() const;
  // Kills all processes in the group and its subgroups in one step. Returns false if the kernel
  // cannot do that (before 5.14).
  bool Kill() const { return KillCgroup(path_); }
  bool Remove() const { return RemoveCgroup(path_); }

  static bool ConfineTo(const std::string& path, const std::string& cores);
  // These take a path, so they also work for a group whose shim is gone.
  static bool KillCgroup(const std::string& path);
  // Removes the group and its subgroups. Returns false if they still contain processes.
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
