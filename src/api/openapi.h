// The API's own description, as it is served at /v1/openapi.json.
#pragma once

#include <string>

namespace carma::api {

// The text of openapi.json, with the fields of every schema as listed by the types.
const std::string& OpenApiJson();

}  // namespace carma::api
