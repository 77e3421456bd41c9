// The endpoint for the output of a task.
#pragma once

#include <functional>

#include "daemon/http/routes.h"
#include "store/store.h"

namespace carma::daemon {

struct OutputServices {
  store::Store& store;
  // Runs `read` on a thread within a time limit, because a user's disk may hang, then `then` on the
  // loop.
  std::function<void(std::function<Answer()> read, std::function<void(Answer)> then)> aside;
};

// ?stream=stdout or stderr; &bytes=: how many of the last bytes (default 16 KiB). For the owner and
// administrators; the file is read with the owner's rights. Answers {"path", "text", "from",
// "size"}, where `from` is the position of the text in the file and `size` the length of the file.
Result<Unit> ShowOutput(const OutputServices& services, const Call& call,
                        const api::Responder& reply);

}  // namespace carma::daemon
