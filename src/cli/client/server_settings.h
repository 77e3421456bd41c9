// The configuration of the server at hand, for commands that look at its GPUs themselves.
#pragma once

#include <string>

#include "base/result.h"
#include "config/settings.h"

namespace carma::cli {

// file: in place of the ordinary ones; empty: these. of_root: of a daemon that runs as root. The
// simulated driver finds its server by the environment, as it does below the daemon: it is set.
// Errors: as config::Load().
base::Result<config::Settings> LoadServerSettings(const std::string& file, bool of_root);

}  // namespace carma::cli
