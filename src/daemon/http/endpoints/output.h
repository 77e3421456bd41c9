// The endpoint for a task's output.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// ?stream=stdout or stderr; &bytes=: how much of the end to return (default 16 KiB). For the owner
// and administrators. The file is read with the owner's privileges. Returns {"path", "text",
// "from", "size"}, where `from` is the position of the text in the file and `size` is the file's
// length.
Result<Unit> ShowOutput(const SharedServices& services, const Call& call,
                        const api::Responder& reply);

}  // namespace carma::daemon
