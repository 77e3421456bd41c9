// Endpoints that close the whole server before its machine shuts down, and open it again.
#pragma once

#include <functional>

#include "api/status_view.h"
#include "base/clock.h"
#include "config/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/http/routes.h"

namespace carma::daemon {

struct ClosingServices {
  Engine& engine;
  base::Clock& clock;
  const config::Settings& settings;
  std::function<api::StatusView()> status;
};

// Both are for administrators and answer with the daemon's state once the change is durable.
// Optional body: {"reason": text, "by_ms": time}. Without a time, tasks have slots.shutdown_notice
// from now.
Result<Unit> CloseServer(const ClosingServices& services, const Call& call,
                         const api::Responder& reply);
Result<Unit> OpenServer(const ClosingServices& services, const Call& call,
                        const api::Responder& reply);

}  // namespace carma::daemon
