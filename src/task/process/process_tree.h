// Which processes belong to an attempt when process groups do not tell.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "base/process_id.h"

namespace carma::task {

// Children of `root` and theirs, in any session, zombies left out. The table is not read at one
// instant: repeat until empty. Cost: one small read per process of the machine.
std::vector<base::ProcessStat> Descendants(pid_t root);

// Processes of that user whose environment at their start held exactly `assignment`
// ("NAME=value"). Finds the orphans of an attempt whose shim is gone.
std::vector<pid_t> ProcessesWithVariable(uid_t uid, const std::string& assignment);

// Processes of that user that were called with exactly this one argument. Finds shims whose folder
// is gone.
std::vector<base::ProcessId> ProcessesWithArgument(uid_t uid, const std::string& argument);

// False: that very process has ended. True also where the machine cannot tell it from another one
// of its number (no descriptor is free).
bool MayLive(const base::ProcessId& process);

// Signals for that very process: none if it has ended, whoever has its number now.
void Tell(const base::ProcessId& process, std::initializer_list<int> signals);

// It has a handler for that signal, so that it does not end by it. False where nobody can tell.
bool Catches(const base::ProcessId& process, int signal);

// That user's processes in the session which `leader` made, alive or not. None if the leader's pid
// has been given to another process: then the session is gone too.
std::vector<pid_t> SessionMembers(uid_t uid, const base::ProcessId& leader);

}  // namespace carma::task
