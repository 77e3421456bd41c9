// Chooses the tool of a task in a container and fills in its command line.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "task/process/user.h"
#include "task/shim/container_command.h"
#include "task/shim/environment.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

// All but its command. Looks for the tool on the PATH of the environment, with the rights that are
// worn, and mounts home, working folder, checkpoint folder, the MPS server's folder and the task's
// own mounts, each where it is there. Takes variables that would mislead the tool out of the
// environment. Errors: kNotFound with the tools that were looked for.
base::Result<ContainerRun> PlanContainer(const ShimOrder& order, const UserInfo& user,
                                         Environment& environment);

// A copy of the script that the task's user may read, in /tmp; the shim's own folder is closed to
// users, and so to Podman. Called with the user's rights. Errors: the system's.
base::Result<std::string> CopyScript(const ShimOrder& order, const std::string& text);

}  // namespace carma::task
