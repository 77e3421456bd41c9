// Ends a task's container when its shim ends, however that ends: Docker's containers are children
// of its daemon, and Podman remembers containers that are gone. The guard is a process of its own
// (carma-shim --guard), so that KILL for the shim does not spare the container.
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "task/process/user.h"

namespace carma::task {

// What is to be done then, with the rights of the task's user.
struct GuardOrder {
  UserInfo user;
  bool switches_user = false;
  std::vector<std::string> removal;  // ContainerRemoval; empty: only the script is removed
  std::vector<std::string> block;    // environment of that command
  std::string group;                 // ContainerGroup
  std::string script;                // a file to be removed, made by the user; or empty

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& order) {
    field("uid", order.user.uid, "", {.required = true});
    field("gid", order.user.gid, "", {.required = true});
    field("groups", order.user.groups);
    field("switches_user", order.switches_user);
    field("removal", order.removal);
    field("block", order.block);
    field("group", order.group);
    field("script", order.script);
  }
};

class ContainerGuard {
 public:
  // Starts the guard. The calling process must not be a subreaper at that moment: the guard is to
  // be no child of its. Errors: the system's.
  static base::Result<ContainerGuard> Start(const GuardOrder& order);
  // The task has ended. removes: its container may still be there, or be remembered. Returns when
  // that is done, or after a minute.
  void Finish(bool removes);

 private:
  base::UniqueFd alive_;  // written or closed: the guard begins
  base::UniqueFd done_;   // ends when the guard has ended
};

// The body of carma-shim --guard. Returns the exit status.
int RunGuard();

}  // namespace carma::task
