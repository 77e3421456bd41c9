// Chooses the tool for a task in a container and prepares its command line.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "task/process/user.h"
#include "task/shim/container_command.h"
#include "task/shim/environment.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

// Plans the run, except for its command. Looks for the tool on the PATH of the environment with the
// current privileges. Mounts home, working folder, checkpoint folder, the MPS server's folder and
// the task's own mounts if they exist. Removes variables from the environment that would mislead
// the tool. Errors: kNotFound with the tools tried.
Result<ContainerRun> PlanContainer(const ShimOrder& order, const UserInfo& user,
                                   Environment& environment);

// Whether only root can change which program runs here: the program, its folder and all folders
// above belong to root and are not writable by others. (`/tmp` may be above, because it is sticky.)
bool OnlyRootChanges(const std::string& program);

// Copies the script to /tmp so that the task's user can read it; the shim's folder is closed to
// users and therefore to Podman. Must be called with the user's privileges. Errors: system errors.
Result<std::string> CopyScript(const ShimOrder& order, const std::string& text);

}  // namespace carma::task
