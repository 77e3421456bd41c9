// The command line that runs a task in a container, as argv: no shell ever reads it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/values/ids.h"
#include "core/values/promise.h"
#include "task/describe/container.h"

namespace carma::task {

struct ContainerRun {
  ContainerTool tool{};
  std::string program;  // path of the tool
  std::string image;
  std::string name;  // ContainerName
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::string workdir;
  std::vector<ContainerMount> mounts;
  std::vector<std::string> variables;  // names; the tool takes their values from its environment
  std::vector<std::string> gpu_uuids;
  bool input = false;     // standard input is connected
  bool terminal = false;  // and is a terminal
  std::string init;       // Podman: program that becomes process 1; empty: the task itself does
  // Only for Docker, because its containers are not in the task's control group:
  std::string group;  // ContainerGroup
  core::HostShare host;
  bool cpu_cap = false;
  std::string cores;  // as in base/cpu_list.h; empty: all
  std::int64_t max_processes = 0;
  std::vector<std::string> command;
};

// The tool in the foreground: its exit code is the command's, and it passes signals on.
std::vector<std::string> ContainerCommand(const ContainerRun& run);
// Ends and removes the container whether or not it runs. Empty: nothing to remove, because the
// container consists only of the tool's child processes.
std::vector<std::string> ContainerRemoval(const ContainerRun& run);

// The container's name for one attempt of a task. books: BooksWord.
std::string ContainerName(std::string_view books, core::TaskId id, int attempt);
// The control group of an attempt's Docker containers, a name that both of Docker's drivers accept.
std::string ContainerGroup(std::string_view books, core::TaskId id, int attempt);
// Whether the text of /proc/PID/cgroup shows that the process is in that group. Only groups that
// only root can make count: at the top, or below the systemd slices of the name's parts.
bool IsInContainerGroup(std::string_view cgroup, std::string_view group);

// The variables for a container: all except those that describe the server's own programs.
std::vector<std::string> ContainerVariables(const std::map<std::string, std::string>& environment);

}  // namespace carma::task
