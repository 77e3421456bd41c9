// Starts the task's own program from the shim: fork, switch to the user, exec.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "task/process/user.h"

namespace carma::task {

// How to start a child. Everything is decided before the fork.
struct ChildPlan {
  std::vector<std::string> argv;   // argv[0] without '/' is looked up in `search`
  std::vector<std::string> block;  // environment as "NAME=value"
  std::string search;              // PATH of that environment
  std::string workdir;
  mode_t umask = 0;
  std::int64_t max_processes = 0;  // limit for the child's user; 0: the same as for carmad
  std::vector<int> cores;          // cores to run on; empty: those of the shim
  int stdin_fd = -1;               // -1: /dev/null
  int stdout_fd = -1;
  int stderr_fd = -1;
  bool terminal = false;  // stdin_fd is a terminal, which becomes the child's controlling terminal
  // Allows setuid programs in the child, such as Podman's newuidmap and Apptainer's starter. Set
  // only for container tools that only root can change; these tools set no_new_privs for the
  // programs that they run.
  bool keeps_setuid = false;
  int cgroup_fd = -1;              // folder of the task's group; -1: none
  const UserInfo* user = nullptr;  // user to switch to; null: keep the shim's
  // Descriptor of the batch script at argv[script_argument]. If the user cannot enter the folders
  // above the script, the child reads it through this descriptor.
  int script_fd = -1;
  std::size_t script_argument = 0;
};

struct LaunchError {
  std::string text;  // one sentence for the submitter
  bool retryable = false;
  bool no_user = false;  // retryable: the task's user does not exist
};

// Returns why the caller may not enter the task's working directory; empty if it may. The caller
// must have the privileges of the task's user. May block on the file system.
std::optional<LaunchError> WhyNotEnter(const std::string& workdir);

// Starts the child in its own session, process group and cgroup, with no new privileges, default
// signals, the task's umask, and only its streams as descriptors. The child is killed if the shim
// dies. Returns once exec has succeeded; after an error, the child is gone. May block on the
// program's file system.
std::expected<pid_t, LaunchError> StartChild(const ChildPlan& plan);

}  // namespace carma::task
