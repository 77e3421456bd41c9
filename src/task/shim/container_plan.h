// Chooses the tool for a task in a container and prepares its command line.
#pragma once

#include <string>

#include "base/result.h"
#include "task/process/user.h"
#include "task/shim/container_command.h"
#include "task/shim/environment.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

// Plans everything about the run except its command. Searches the environment's PATH for the tool
// with the current privileges. Mounts the home, working and checkpoint folders, the MPS server's
// folder and the task's own mounts if they exist. Removes environment variables that would mislead
// the tool. Returns kNotFound, naming the tools tried, if none is found.
Result<ContainerRun> PlanContainer(const ShimOrder& order, const UserInfo& user,
                                   Environment& environment);

// Returns true if only root can change which program runs here: the program, its folder and all
// parent folders belong to root and are not writable by others. Allows sticky parents such as /tmp.
bool OnlyRootChanges(const std::string& program);

// Copies the script to /tmp so that the task's user can read it. The shim's folder is closed to
// users, and so to Podman. Needs the user's privileges. Returns a system error on failure.
Result<std::string> CopyScript(const ShimOrder& order, const std::string& text);

}  // namespace carma::task
