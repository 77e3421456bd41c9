// Stops a task's container when its shim exits for any reason. Needed because Docker's containers
// are children of the Docker daemon, and Podman keeps records of containers that have exited. The
// guard is a separate process (carma-shim --guard), so it works even if the shim is killed.
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "task/process/user.h"
#include "task/shim/container_processes.h"

namespace carma::task {

// What the guard does when the shim exits: it removes the container and the script as the task's
// user.
struct GuardOrder {
  UserInfo user;
  bool switches_user = false;
  bool keeps_setuid = false;         // as in ChildPlan
  std::vector<std::string> removal;  // from ContainerRemoval(); empty: only the script is removed
  std::vector<std::string> block;    // environment of that command
  std::string group;                 // from ContainerGroup()
  std::string script;                // the user's file to remove, or empty
  ContainerLimits limits = {};       // limits of the group

  static void VisitFields(auto& field, auto& order) {
    field("uid", order.user.uid, "", {.required = true});
    field("gid", order.user.gid, "", {.required = true});
    field("groups", order.user.groups);
    field("switches_user", order.switches_user);
    field("keeps_setuid", order.keeps_setuid);
    field("removal", order.removal);
    field("block", order.block);
    field("group", order.group);
    field("script", order.script);
    field("limiter", order.limits.limiter);
    field("limits", order.limits.words);
  }
};

class ContainerGuard {
 public:
  // Starts the guard. The caller must not be a subreaper yet, or the guard would become its child.
  // Returns a system error on failure.
  static Result<ContainerGuard> Start(const GuardOrder& order);
  // Called when the task has ended. removes: whether its container, or a record of it, may still
  // exist. Returns once the guard has finished, or after a minute.
  void Finish(bool removes);

 private:
  base::UniqueFd alive_;  // the guard starts its work when this is written to or closed
  base::UniqueFd done_;   // closed when the guard has exited
};

// Runs carma-shim --guard and returns the exit status.
int RunGuard();

}  // namespace carma::task
