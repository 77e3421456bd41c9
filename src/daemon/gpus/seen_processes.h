// Reads information about the processes on the GPUs from /proc, on the thread that reads the GPUs.
#pragma once

#include <sys/types.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "base/process_id.h"
#include "gpu/probe.h"

namespace carma::daemon {

// A process's user and command as in `ps`, printable and short. Empty if the process has exited or
// cannot be seen, for example because it runs in another container.
struct ProcessFace {
  std::string user;     // user name, or UID if there is no name
  std::string command;  // with arguments, unless /proc hides them
  friend bool operator==(const ProcessFace&, const ProcessFace&) = default;
};

struct SeenProcess {
  // The process itself, its parent, and so on. Empty if the process has exited or cannot be seen.
  std::vector<base::ProcessId> line;
  std::string cgroup;  // as base::CgroupOf
  ProcessFace face;    // UID and program name only
  bool whole = false;  // everything above could be read
};
using SeenProcesses = std::unordered_map<pid_t, SeenProcess>;

// Reads only files that never block, even while the process hangs in a driver. before: an earlier
// result for the same pid, or null. A complete earlier result is returned unchanged if the process
// still has the same parent and name, so a later change of UID or control group goes unnoticed.
SeenProcess SeeProcess(pid_t pid, const SeenProcess* before = nullptr);
SeenProcesses SeeProcesses(const gpu::Round& round, const SeenProcesses& before = {});

// Reads the "Uid:" line, because the owner of the process's /proc folder is root if the process is
// undumpable.
std::optional<uid_t> UserOf(pid_t pid);

}  // namespace carma::daemon
