// The step from the shim to the task's own program: fork, take on the user's rights, exec.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "task/process/user.h"

namespace carma::task {

// Everything is decided before the fork.
struct ChildPlan {
  std::vector<std::string> argv;   // argv[0] without '/' is searched in `search`
  std::vector<std::string> block;  // environment
  std::string search;              // PATH of that environment
  std::string workdir;
  mode_t umask = 0;
  std::int64_t max_processes = 0;  // of its user; 0: as the daemon has it
  std::vector<int> cores;          // its own, where it runs; empty: wherever the shim may
  int stdin_fd = -1;               // -1: /dev/null
  int stdout_fd = -1;
  int stderr_fd = -1;
  bool terminal = false;  // stdin_fd is a terminal, which becomes its own
  // A tool for containers: Podman's newuidmap and Apptainer's starter may be setuid programs.
  // They deny new rights to the programs that they run.
  bool keeps_setuid = false;
  int cgroup_fd = -1;              // folder of its group; -1: none
  const UserInfo* user = nullptr;  // rights to take on; null: stay who we are
  // A batch script: its path stands in argv[script_argument]. A user who may not pass the folders
  // above gets it through this descriptor instead.
  int script_fd = -1;
  std::size_t script_argument = 0;
};

struct LaunchError {
  std::string text;  // one sentence for the submitter
  bool retryable = false;
};

// The child: own session and process group, in its cgroup, dies with the shim, no new privileges,
// default signals, its umask, and no descriptor of ours but its streams. Returns once exec
// has succeeded; after an error the child is gone. Blocks while the program's file system does.
std::expected<pid_t, LaunchError> StartChild(const ChildPlan& plan);

}  // namespace carma::task
