// Which processes a lease may be for, and which of them are signalled when it has to end. We have
// the rights of root, so these rules decide what a lease for a wrong process can harm.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/process_id.h"
#include "task/lease/lease_files.h"

namespace carma::task {

// Why no lease may be for that process, as the rest of a sentence: it is process 1, the daemon, one
// that the daemon runs below, or one that the daemon started to serve it. Empty: it may.
std::optional<std::string> WhyNoLease(pid_t pid, pid_t daemon);

// `process` is `above`, or lives below it.
bool IsBelow(const base::ProcessId& process, const base::ProcessId& above);

// The processes of a lease without its keepers: its members and what lives below them. Never the
// daemon and what it has started, and nothing of a member for which no lease may be.
std::vector<base::ProcessStat> ProcessesOf(const Lease& lease, pid_t daemon);
// Sends a signal to those of them that run as the lease's owner. Others that they have started (by
// su, for example) belong to another user.
void SignalProcesses(const Lease& lease, int number, pid_t daemon);
// The same for processes that have a handler for that signal only.
void SignalThatCatch(const Lease& lease, int number, pid_t daemon);

// "INODE PATH" of the files that its processes have open for writing, as links in /proc tell them:
// no file is touched, so none can hang. Where their output goes, among others.
std::vector<std::string> OutputsOf(const Lease& lease, pid_t daemon);

// What waits for it, the process that asked or the children of its keeper, has been stopped
// (SIGSTOP, Ctrl-Z). A job that Slurm has suspended by freezing its cgroup is not seen as stopped.
bool IsStopped(const Lease& lease);

}  // namespace carma::task
