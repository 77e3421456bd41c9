// Endpoints for the daemon itself: its status, metrics and API description.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

Answer ShowStatus(const ServerServices& server, const Call& call);
Answer ShowMetrics(const ServerServices& server, const Call& call);
Answer ShowOpenApi(const ServerServices& server, const Call& call);

}  // namespace carma::daemon
