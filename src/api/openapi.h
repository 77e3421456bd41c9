// The API's own description, as it is served at /v1/openapi.json.
#pragma once

#include <string>

namespace carma::api {

// What openapi.json says, with the fields of every schema as the types themselves list them.
const std::string& OpenApiJson();

}  // namespace carma::api
