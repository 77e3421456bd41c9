// Finds processes of an attempt that process groups do not show.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "base/process_id.h"

namespace carma::task {

// Descendants of `root` in any session, without zombies. The table is not read at one instant:
// repeat until empty. Cost: one small read per process of the machine.
std::vector<base::ProcessStat> Descendants(pid_t root);

// Only processes of the task's user can be affected, whatever they claim about themselves.
bool BelongsTo(pid_t pid, uid_t uid);

// Processes of that user whose environment at their start contained exactly `assignment`
// ("NAME=value"). Finds the orphans of an attempt whose shim is gone.
std::vector<base::ProcessId> ProcessesWithVariable(uid_t uid, const std::string& assignment);

// Processes of that user started with exactly this one argument. Finds shims whose folder is gone.
std::vector<base::ProcessId> ProcessesWithArgument(uid_t uid, const std::string& argument);

// False: that process has ended. True also if it cannot be distinguished from another process with
// its pid (no free descriptor).
bool MayLive(const base::ProcessId& process);

// Sends signals to that process, but not if it has ended, even if its pid was reused.
void Tell(const base::ProcessId& process, std::initializer_list<int> signals);

// Whether the process has a handler for that signal, so that it survives it. False if unknown.
bool Catches(const base::ProcessId& process, int signal);

// That user's processes in the session which `leader` made, alive or not. None if the leader's pid
// has been given to another process: then the session is gone too.
std::vector<base::ProcessId> SessionMembers(uid_t uid, const base::ProcessId& leader);

}  // namespace carma::task
