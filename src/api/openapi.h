// The API's description of itself, served at /v1/openapi.json.
#pragma once

#include <string>

namespace carma::api {

// The text of openapi.json. The schemas are generated from the field lists of the C++ types.
const std::string& OpenApiJson();

}  // namespace carma::api
