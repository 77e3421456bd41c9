// The address of a Unix socket by path.
#pragma once

#include <sys/un.h>

#include <string>

#include "base/result.h"

namespace carma::api {

// Errors: kInvalid: empty, or longer than the system can name.
base::Result<sockaddr_un> UnixAddress(const std::string& path);

}  // namespace carma::api
