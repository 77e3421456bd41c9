// Finds and kills the processes in a task's containers.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/process_id.h"

namespace carma::task {

// Processes inside a task's container: descendants of its shim, except the container tool and its
// helpers (identified by name), plus Docker's processes in the control group (ContainerGroup).
std::vector<base::ProcessStat> ProcessesInside(pid_t shim, const std::string& group);

// Returns true if the process is in this control group in any cgroup hierarchy on the machine.
bool IsInContainerGroup(pid_t pid, const std::string& group);

// Creates the cgroup folders in which Docker will place this group's containers, so that limits can
// be set before a container starts. Returns their full paths, one for each of Docker's two cgroup
// drivers if the machine runs systemd. Empty if Docker does not use cgroup v2 here or if this
// process is not root.
std::vector<std::string> MakeContainerGroups(const std::string& group);

// The program that limits a group's GPU memory, and its arguments (group_limiter.h).
struct ContainerLimits {
  std::vector<std::string> limiter;  // empty: no limits
  std::vector<std::string> words;
};

// Kills all processes in the group and removes the group with its limits, if it exists. Also covers
// containers that a task started itself with --cgroup-parent.
void EndContainerGroup(const std::string& group, const ContainerLimits& limits);

}  // namespace carma::task
