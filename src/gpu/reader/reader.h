// The program that calls the driver for the daemon (carma-reader). A process can be abandoned if a
// call never returns from the kernel. A hanging thread would prevent the daemon from exiting and
// would keep its locks and sockets open.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::gpu {

// Answers requests (reader_wire.h) until the client is gone. Loads the library on the first list
// request. If loading fails, the next list request tries again. Returns kInvalid if a line is not
// a request.
Result<Unit> ServeReader(base::UniqueFd socket, const std::string& nvml_library);

}  // namespace carma::gpu
