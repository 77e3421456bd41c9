// The processes of a task's containers.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/process_id.h"

namespace carma::task {

// What runs inside the container of a task: descendants of its shim without the tool and its
// helpers, which are known by name, and what Docker runs in the control group (ContainerGroup).
std::vector<base::ProcessStat> ProcessesInside(pid_t shim, const std::string& group);

// The control group of a process lies in that group, in any of the machine's hierarchies.
bool IsInContainerGroup(pid_t pid, const std::string& group);

// Kills what is left in the group and removes it, where it exists. For containers that a task
// started by itself with --cgroup-parent too.
void EndContainerGroup(const std::string& group);

}  // namespace carma::task
