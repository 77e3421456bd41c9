// Where the pilots of a job listen (carma pilot), so that the command finds one without being told.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::config {

using Environment = std::map<std::string, std::string>;

// Folders in which the private one of a job's sockets may lie, the best first: $XDG_RUNTIME_DIR,
// $TMPDIR, /tmp. Slurm hands over the variables of the machine where the job was submitted: not all
// of them need to be there.
std::vector<std::string> PilotBases(const Environment& environment);

// Name of the private folder below one of them. job: Slurm's number; empty: no job.
std::string PilotFolderName(const std::string& job, unsigned uid);

// Errors: kDenied: not a folder of this user that nobody else may write to. What is sent to a
// socket there would be read by whoever made it.
base::Result<base::Unit> CheckPrivate(const std::string& folder, unsigned uid);

// Of the job that this process belongs to (SLURM_JOB_ID) the socket of its only pilot; empty: none
// has one here, or several have.
std::string JobPilotSocket(const Environment& environment, unsigned uid);

}  // namespace carma::config
