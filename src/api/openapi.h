// The API's description of itself, served at /v1/openapi.json.
#pragma once

#include <string>

namespace carma::api {

// The text of openapi.json. The fields of every schema come from the types themselves.
const std::string& OpenApiJson();

}  // namespace carma::api
