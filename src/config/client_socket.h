// Where a client finds the daemon that a configuration describes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/settings.h"

namespace carma::config {

// The default socket of root's carmad.
inline constexpr char kServerSocket[] = "/run/carma/carmad.sock";

// daemon.socket in the sources, later ones winning; empty: not set. Mistakes are ignored: only the
// daemon must check its configuration, and its socket should be found even if another key is wrong.
std::string ConfiguredSocket(const Sources& sources);

// ---- the sockets of a job's pilots (carma pilot), so that `carma` finds one by itself ----

using Environment = std::map<std::string, std::string>;

// Parent folders for the private folder of a job's sockets, best first: $XDG_RUNTIME_DIR, $TMPDIR,
// /tmp. Slurm passes the variables of the submitting machine, so some folders may not exist here.
std::vector<std::string> PilotBases(const Environment& environment);

// Name of the private folder below one of them. job: Slurm's number; empty: no job.
std::string PilotFolderName(const std::string& job, unsigned uid);

// Checks that it is this user's folder and not writable for others: otherwise another user could
// have made the socket and read what is sent there. Errors: kDenied.
Result<Unit> CheckPrivate(const std::string& folder, unsigned uid);

// The socket of the only pilot of this process's job (SLURM_JOB_ID); empty: no pilot here, or
// several.
std::string JobPilotSocket(const Environment& environment, unsigned uid);

}  // namespace carma::config
