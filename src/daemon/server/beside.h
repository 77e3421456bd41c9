// Whether a user's own carmad may start on this machine.
#pragma once

#include "base/result.h"
#include "config/settings.h"

namespace carma::daemon {

// Errors: kConflict: root's carmad manages the GPUs of this machine and would not know the tasks of
// a second one. Root's own carmad, and one for simulated GPUs, may always start.
Result<Unit> CheckBesideServer(const config::Settings& settings);

}  // namespace carma::daemon
