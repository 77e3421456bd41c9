// What a task wrote, for its owner.
#pragma once

#include <functional>

#include "daemon/http/routes.h"
#include "store/store.h"

namespace carma::daemon {

struct OutputServices {
  store::Store& store;
  // Runs the first on a thread that a user's disk may hang, and then the second on the loop, within
  // a limit.
  std::function<void(std::function<Answer()> read, std::function<void(Answer)> then)> aside;
};

// ?stream=stdout or stderr, &bytes=: the last of them, 16 KiB by default. For the owner and
// administrators; the file is read with the owner's rights. Answers {"path", "text", "from",
// "size"}: where the text begins, and how long the file is.
base::Result<base::Unit> ShowOutput(const OutputServices& services, const Call& call,
                                    const api::Responder& reply);

}  // namespace carma::daemon
