// Checks whether a user's own carmad may start on this machine.
#pragma once

#include "base/result.h"
#include "config/settings.h"

namespace carma::daemon {

// Errors: kConflict if root's carmad manages the GPUs of this machine, because root's carmad would
// not see the tasks of a second one. Root's own carmad and a carmad with simulated GPUs may always
// start.
Result<Unit> CheckBesideServer(const config::Settings& settings);

}  // namespace carma::daemon
