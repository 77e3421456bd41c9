// The API's own description, src/api/openapi.json, as it is served at /v1/openapi.json.
#pragma once

#include <string_view>

namespace carma::api {

extern const std::string_view kOpenApiJson;

}  // namespace carma::api
