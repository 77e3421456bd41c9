// The program that calls the driver for the daemon (carma-reader). If a call never returns from the
// kernel, the process can be abandoned, whereas a hanging thread would prevent the daemon from
// exiting and would keep its locks and sockets open.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::gpu {

// Answers requests (reader_wire.h) until the client disconnects. The first list request loads the
// library; if that fails, the next one tries again. Returns kInvalid if a line is not a request.
Result<Unit> ServeReader(base::UniqueFd socket, const std::string& nvml_library);

}  // namespace carma::gpu
