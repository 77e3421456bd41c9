// Checks whether a user's own carmad may start on this machine.
#pragma once

#include "base/result.h"
#include "config/settings.h"

namespace carma::daemon {

// Returns kConflict if root's carmad manages this machine's GPUs, because it would not see the
// tasks of a second carmad. Root's own carmad and a carmad with simulated GPUs may always start.
Result<Unit> CheckBesideServer(const config::Settings& settings);

}  // namespace carma::daemon
