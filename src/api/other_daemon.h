// Checks whether another carmad is already managing the GPUs of this machine.
#pragma once

#include <string>

#include "base/result.h"

namespace carma::api {

// Waits at most 2 s for a response. Returns kConflict if another user's carmad responds on that
// socket, or if nothing responds but a carmad has run there since the machine started (and may be
// stopped only for an upgrade). The message names the option that starts a second carmad anyway.
Result<Unit> CheckNoOtherDaemon(const std::string& socket, const std::string& option);

}  // namespace carma::api
