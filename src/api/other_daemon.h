// Whether another carmad already manages the GPUs of this machine.
#pragma once

#include <string>

#include "base/result.h"

namespace carma::api {

// Errors: kConflict: the carmad of another user answers at that socket. The message names the
// option that starts one anyway. Waits for an answer for 2 s at most.
Result<Unit> CheckNoOtherDaemon(const std::string& socket, const std::string& option);

}  // namespace carma::api
