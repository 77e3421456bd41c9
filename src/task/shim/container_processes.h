// The processes of a task's containers.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/process_id.h"

namespace carma::task {

// Processes inside a task's container: descendants of its shim without the tool and its helpers
// (known by name), and Docker's processes in the control group (ContainerGroup).
std::vector<base::ProcessStat> ProcessesInside(pid_t shim, const std::string& group);

// Whether the process is in that control group, in any of the machine's hierarchies.
bool IsInContainerGroup(pid_t pid, const std::string& group);

// Kills what is left in the group and removes it, if it exists. Also covers containers that a task
// started itself with --cgroup-parent.
void EndContainerGroup(const std::string& group);

}  // namespace carma::task
