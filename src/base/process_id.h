// Identifies a process uniquely by its pid and start time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace carma::base {

struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat, in clock ticks since boot
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

struct ProcessStat {
  ProcessId id;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';
  int threads = 0;
  std::string command;
  // The status that waitpid() would return; only for a dead process that we may inspect.
  std::optional<int> exit_status;
  // True if the process has exited but has not been reaped yet. False if only the first thread has
  // exited and others are still running.
  bool dead() const { return (state == 'Z' || state == 'X') && threads <= 1; }
};

// Returns nothing if there is no such process.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);
// The process's path in the cgroup v2 hierarchy ("/user.slice"). Empty if there is no such
// hierarchy.
std::string CgroupOf(pid_t pid);
ProcessId SelfProcess();
// True if that process is still running. False if it is a zombie, or if a different process now has
// the same pid.
bool Alive(const ProcessId& id);
// Returns the option in /proc/mounts that hides other users' processes. Empty if there is none.
std::string HiddenProcesses(std::string_view mounts);
// An ID that changes with every boot. Empty if unknown.
std::string BootId();

}  // namespace carma::base
