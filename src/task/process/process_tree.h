// Finds an attempt's processes that cannot be found by their process group.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "base/process_id.h"

namespace carma::task {

// Descendants of `root` in any session, excluding zombies; none if `root` is not positive. New
// processes may be missed if they start during the call, so repeat it until it returns none. Costs
// one small read per process on the machine.
std::vector<base::ProcessStat> Descendants(pid_t root);

// Returns true if the process belongs to this user. Check this before acting on a process's
// environment or arguments, because any user can set those at will.
bool BelongsTo(pid_t pid, uid_t uid);

// Processes of this user whose environment contained exactly `assignment` ("NAME=value") when they
// started. Finds the orphans of an attempt whose shim is gone.
std::vector<base::ProcessId> ProcessesWithVariable(uid_t uid, const std::string& assignment);

// Processes of this user that were started with exactly this one argument. Finds shims whose folder
// has been removed.
std::vector<base::ProcessId> ProcessesWithArgument(uid_t uid, const std::string& argument);

// Returns true if the process is alive, or if no descriptor is free to distinguish it from a later
// process with the same pid.
bool MayLive(const base::ProcessId& process);

// Sends signals to the process. Does nothing if it has exited, even if its pid has been reused.
void Tell(const base::ProcessId& process, std::initializer_list<int> signals);

// Returns true if the process has a handler for this signal and so survives it; false if unknown.
// False for interactive shells, because bash has handlers that only save its history before it
// dies.
bool Catches(const base::ProcessId& process, int signal);
// Returns true if the process ignores TERM and TSTP, as interactive shells do for job control;
// false if unknown. Other processes that ignore TERM do not ignore TSTP.
bool IsInteractiveShell(const base::ProcessId& process);

// This user's processes in the session that `leader` created, whether or not the leader is still
// alive. Empty if the leader's pid now belongs to another process, because the session is then gone
// as well.
std::vector<base::ProcessId> SessionMembers(uid_t uid, const base::ProcessId& leader);

}  // namespace carma::task
