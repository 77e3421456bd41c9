// The configuration of this server, for commands that read its GPUs themselves.
#pragma once

#include <string>

#include "base/result.h"
#include "config/settings.h"

namespace carma::cli {

// file: instead of the usual ones; empty: the usual ones. of_root: for a daemon that runs as root.
// Sets the environment variable by which the simulated driver finds its server, as the daemon does.
// Errors: as config::Load().
base::Result<config::Settings> LoadServerSettings(const std::string& file, bool of_root);

}  // namespace carma::cli
