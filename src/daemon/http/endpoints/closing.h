// Endpoints that close the whole server before its machine shuts down, and that reopen it.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// Both endpoints are for administrators and return the daemon's state once the change is durable.
// Optional body: {"reason": text, "by_ms": time}. Without by_ms, tasks must leave within
// slots.shutdown_notice.
Result<Unit> CloseServer(const SharedServices& services, const Call& call,
                         const api::Responder& reply);
Result<Unit> OpenServer(const SharedServices& services, const Call& call,
                        const api::Responder& reply);

}  // namespace carma::daemon
