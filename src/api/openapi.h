// The API's own description, served at /v1/openapi.json.
#pragma once

#include <string>

namespace carma::api {

// The text of openapi.json; the fields of every schema come from the types themselves.
const std::string& OpenApiJson();

}  // namespace carma::api
