// Builds the argv that runs a task in a container. It never passes through a shell.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/values/ids.h"
#include "task/describe/container.h"
#include "task/process/user.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

struct ContainerRun {
  ShimOrder order;
  UserInfo user;
  ContainerTool tool{};
  std::string program;  // path of the tool
  std::string image;
  std::string name;   // as returned by ContainerName
  std::string group;  // for Docker: as returned by ContainerGroup
  std::vector<ContainerMount> mounts;
  std::vector<std::string> variables;  // names only; the tool takes the values from its environment
  // Program that runs as process 1 of the container (Podman only). Empty means that the task itself
  // is process 1.
  std::string init;
  std::vector<std::string> command;
};

// Runs the tool in the foreground. The tool forwards signals and exits with the command's exit
// code.
std::vector<std::string> ContainerCommand(const ContainerRun& run);
// Returns the command that stops and removes the container, whether or not it is running. Empty for
// a container that consists only of the tool's child processes, which leave nothing to remove.
std::vector<std::string> ContainerRemoval(const ContainerRun& run);

// The container's name for one attempt of a task. books: as returned by BooksWord.
std::string ContainerName(std::string_view books, core::TaskId id, int attempt);
// The control group of an attempt's Docker containers. Both of Docker's cgroup drivers accept this
// name.
std::string ContainerGroup(std::string_view books, core::TaskId id, int attempt);
// Returns true if the text of /proc/PID/cgroup shows that the process is in this group. The group
// counts only at the top level or in the systemd slices derived from its name, because only root
// can create groups there.
bool IsInContainerGroup(std::string_view cgroup, std::string_view group);

// Names of the variables to pass into the container. Leaves out variables such as PATH that only
// make sense outside the image.
std::vector<std::string> ContainerVariables(const std::map<std::string, std::string>& environment);

}  // namespace carma::task
