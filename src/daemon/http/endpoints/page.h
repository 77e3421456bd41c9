// Endpoints for the web page and the data that it requests every second.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "api/overview.h"
#include "api/status_view.h"
#include "base/clock.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"
#include "daemon/http/routes.h"
#include "daemon/loop/cached_response.h"

namespace carma::daemon {

// Services that exist once the GPUs are known. They must outlive the endpoints.
struct ShownServer {
  Engine& engine;
  const Monitor& monitor;
  base::Clock& clock;
  bool simulated = false;
};

struct PageServices {
  PageServices(std::function<api::StatusView()> status, const std::optional<ShownServer>& server);
  // shared_ptr, because each endpoint function holds a copy of this struct.
  std::shared_ptr<CachedResponse> overview;
  std::shared_ptr<CachedResponse> users;  // null before the GPUs are known
};

Answer ShowPage(const PageServices& services, const Call& call);
// {id}: the name of a file in page/files.h.
Answer ShowPageFile(const PageServices& services, const Call& call);
Answer ShowOverview(const PageServices& services, const Call& call);
Answer ListUsers(const PageServices& services, const Call& call);

}  // namespace carma::daemon
