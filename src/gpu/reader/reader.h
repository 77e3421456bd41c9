// The program that calls the driver for the daemon (carma-reader). If a call never returns from the
// kernel, a process can be abandoned, while a thread would keep the daemon, with its locks and
// sockets, from ever ending.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::gpu {

// Answers requests (reader_wire.h) until the client is gone. Loads the library at the first list
// request; if this fails, it tries again at the next list request. Errors: kInvalid for a line that
// is not a request.
Result<Unit> ServeReader(base::UniqueFd socket, const std::string& nvml_library);

}  // namespace carma::gpu
