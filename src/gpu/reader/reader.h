// The program that calls the driver for the daemon (carma-reader). It is a process and not a
// thread: if a call never returns from the kernel, the process can be abandoned, while a thread
// would keep the daemon's process with its locks and sockets from ever ending.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::gpu {

// Answers requests (reader_wire.h) until the other side is gone. Loads the library at the first
// list, and again at the next one if that failed. Errors: kInvalid for a line that is not a
// request.
Result<Unit> ServeReader(base::UniqueFd socket, const std::string& nvml_library);

}  // namespace carma::gpu
