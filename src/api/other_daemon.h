// Whether another carmad looks after the GPUs of this machine already.
#pragma once

#include <string>

#include "base/result.h"

namespace carma::api {

// Errors: kConflict: the carmad of another user answers at that socket. The message says so, and by
// which option one is started all the same. Waits for an answer for 2 s at most.
base::Result<base::Unit> CheckNoOtherDaemon(const std::string& socket, const std::string& option);

}  // namespace carma::api
