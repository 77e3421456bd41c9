#include "daemon/http/endpoints/handlers.h"

#include "api/openapi.h"
#include "base/json.h"
#include "daemon/http/endpoints/parameters.h"

namespace carma::daemon {

Answer ShowStatus(const ServerServices& server, const Call&) {
  return JsonAnswer(ToJson(server.status()));
}

Answer ShowMetrics(const ServerServices& server, const Call&) {
  return api::Response{200, server.metrics(), "text/plain; version=0.0.4; charset=utf-8"};
}

Answer ShowOpenApi(const ServerServices&, const Call&) {
  return api::Response{.body = api::OpenApiJson()};
}

}  // namespace carma::daemon
