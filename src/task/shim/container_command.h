// Builds the command line that runs a task in a container, as argv. No shell ever reads it.
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
  std::string name;  // as from ContainerName
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::string workdir;
  std::vector<ContainerMount> mounts;
  std::vector<std::string> variables;  // names only; the tool takes the values from its environment
  std::vector<std::string> gpu_uuids;
  bool input = false;     // standard input is connected
  bool terminal = false;  // standard input is a terminal
  // Only for Podman: program that becomes process 1; empty: the task is process 1.
  std::string init;
  // The following fields are only for Docker, because its containers are not in the task's control
  // group.
  std::string group;  // as from ContainerGroup
  core::HostShare host;
  bool cpu_cap = false;
  std::string cores;  // in the form of base/cpu_list.h; empty: all cores
  std::int64_t max_processes = 0;
  std::vector<std::string> command;
};

// Runs the tool in the foreground: it exits with the command's exit code and passes signals on.
std::vector<std::string> ContainerCommand(const ContainerRun& run);
// The command that ends and removes the container, whether or not it runs. Empty if nothing has to
// be removed, because the container consists only of the tool's child processes.
std::vector<std::string> ContainerRemoval(const ContainerRun& run);

// The container's name for one attempt of a task. books: as from BooksWord.
std::string ContainerName(std::string_view books, core::TaskId id, int attempt);
// The control group of an attempt's Docker containers. Both of Docker's cgroup drivers accept this
// name.
std::string ContainerGroup(std::string_view books, core::TaskId id, int attempt);
// Whether the text of /proc/PID/cgroup shows that the process is in this group. Counts only groups
// that root alone can create: at the top, or below the systemd slices of the name's parts.
bool IsInContainerGroup(std::string_view cgroup, std::string_view group);

// The variables for a container: all except those that describe the server's own programs.
std::vector<std::string> ContainerVariables(const std::map<std::string, std::string>& environment);

}  // namespace carma::task
