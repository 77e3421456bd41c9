// The output of a task, for its owner.
#pragma once

#include <functional>

#include "daemon/http/routes.h"
#include "store/store.h"

namespace carma::daemon {

struct OutputServices {
  store::Store& store;
  // Runs `read` on a thread, because a user's disk may hang, then `then` on the loop, within a time
  // limit.
  std::function<void(std::function<Answer()> read, std::function<void(Answer)> then)> aside;
};

// ?stream=stdout or stderr, &bytes=: how many of the last bytes (16 KiB). For the owner and
// administrators; the file is read with the owner's rights. Answers {"path", "text", "from",
// "size"}: `from` is where the text begins, `size` the length of the file.
Result<Unit> ShowOutput(const OutputServices& services, const Call& call,
                        const api::Responder& reply);

}  // namespace carma::daemon
