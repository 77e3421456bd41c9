// Which processes may have a lease, and which of them are signalled at its end. carmad may run as
// root, so these rules limit the harm that a lease for a wrong process can do.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/process_id.h"
#include "task/lease/lease_files.h"

namespace carma::task {

// Why that process cannot have a lease, as the rest of a sentence: it is process 1, carmad, an
// ancestor of carmad, or one of its helpers. Empty: it can.
std::optional<std::string> WhyNoLease(pid_t pid, pid_t daemon);

// Whether `process` is `above` or a descendant of it.
bool IsBelow(const base::ProcessId& process, const base::ProcessId& above);

// The processes of a lease without its keepers: its members and their descendants. Never carmad or
// its helpers, and no processes of a member that cannot have a lease.
std::vector<base::ProcessStat> ProcessesOf(const Lease& lease, pid_t daemon);
// Sends a signal to those of these processes that run as the lease's owner; others (for example
// started with su) belong to another user.
void SignalProcesses(const Lease& lease, int number, pid_t daemon);
// The same, but only for processes that have a handler for that signal.
void SignalThatCatch(const Lease& lease, int number, pid_t daemon);

// "INODE PATH" of the files that its processes have open for writing, from links in /proc: no file
// is opened, so none can hang. Includes the files of their output.
std::vector<std::string> OutputsOf(const Lease& lease, pid_t daemon);

// Whether the waiting process, or the children of its keeper, have been stopped (SIGSTOP, Ctrl-Z).
// A job that Slurm has suspended by freezing its cgroup does not count as stopped.
bool IsStopped(const Lease& lease);

}  // namespace carma::task
