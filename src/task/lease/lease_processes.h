// Decides which processes may have a lease, and which are signalled when a lease ends. carmad may
// run as root, so these rules limit the harm that a lease for the wrong process can do.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/process_id.h"
#include "task/lease/lease_files.h"

namespace carma::task {

// Returns why this process cannot have a lease, for example "is carmad"; empty if it can. Process
// 1, carmad, its ancestors and its helpers cannot have one.
std::optional<std::string> WhyNoLease(pid_t pid, pid_t daemon);

// Returns true if `process` is `above` or one of its descendants.
bool IsBelow(const base::ProcessId& process, const base::ProcessId& above);

// The members of the lease and their descendants, excluding its keepers. Never includes carmad, its
// helpers, or processes of a member that cannot have a lease.
std::vector<base::ProcessStat> ProcessesOf(const Lease& lease, pid_t daemon);
// Signals those of ProcessesOf() that run as the lease's owner. Processes of other users (for
// example those started with su) are left alone. handlers_only: skips processes that have no
// handler for the signal.
void SignalProcesses(const Lease& lease, int number, pid_t daemon, bool handlers_only = false);

// Returns "INODE PATH" for each file that the lease's processes have open for writing, including
// their output files. Reads links in /proc instead of opening files, because opening could hang.
std::vector<std::string> OutputsOf(const Lease& lease, pid_t daemon);

// Returns true if the processes that wait for the lease are stopped (SIGSTOP, Ctrl-Z): the
// requesting process itself or, for a job step, the children of its keepers. A job that Slurm
// suspended by freezing its cgroup does not count as stopped.
bool IsStopped(const Lease& lease);

}  // namespace carma::task
