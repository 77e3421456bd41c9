// The endpoint for the output of a task.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// ?stream=stdout or stderr; &bytes=: how many of the last bytes (default 16 KiB). For the owner and
// administrators; the file is read with the owner's rights. Answers {"path", "text", "from",
// "size"}, where `from` is the position of the text in the file and `size` the length of the file.
Result<Unit> ShowOutput(const SharedServices& services, const Call& call,
                        const api::Responder& reply);

}  // namespace carma::daemon
