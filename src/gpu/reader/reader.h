// The program that asks the driver on the daemon's behalf (carma-reader). A process of its own and
// not a thread: a call that never comes back from the kernel can be left behind with its process,
// while a thread in it would keep the daemon's own process, its locks and sockets from ever going
// away.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::gpu {

// Answers (reader_wire.h) until the other side is gone. Loads the library at the first list, and
// again at the next if that failed. Errors: kInvalid for a line that is no request.
base::Result<base::Unit> ServeReader(base::UniqueFd socket, const std::string& nvml_library);

}  // namespace carma::gpu
