// Finds the socket of the configured daemon.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/settings.h"

namespace carma::config {

// The default socket of root's carmad.
inline constexpr char kServerSocket[] = "/run/carma/carmad.sock";
// A folder that root's carmad makes beside the socket when it starts. It remains while carmad is
// stopped, until the machine reboots.
inline constexpr char kServerTrace[] = "/run/carma/carmad.sock.ends";

// Returns daemon.socket from the sources; later sources win. Empty if it is not set. Ignores
// errors, which the daemon reports; its socket should be found even if a different key is wrong.
std::string ConfiguredSocket(const Sources& sources);

// ---- the sockets of a job's pilots (carma pilot), which `carma` finds automatically ----

using Environment = std::map<std::string, std::string>;

// Parent folders for the private folder that holds a job's sockets, in order of preference:
// $XDG_RUNTIME_DIR, $TMPDIR, /tmp. Slurm passes on the submitting machine's environment, so some of
// these folders may not exist here.
std::vector<std::string> PilotBases(const Environment& environment);

// The name of the private folder, which is the same in every parent folder. job: the Slurm job
// number; empty if there is none.
std::string PilotFolderName(const std::string& job, unsigned uid);

// Returns kDenied if the folder belongs to another user or if other users can write to it. Such
// users could put their own socket there and read what is sent to it.
Result<Unit> CheckPrivate(const std::string& folder, unsigned uid);

// The socket of the pilot in this process's job (SLURM_JOB_ID). Empty if the job has no pilot on
// this machine, or more than one.
std::string JobPilotSocket(const Environment& environment, unsigned uid);

}  // namespace carma::config
