// The JSON objects of the API are structs, which the daemon answers with and the commands print
// (*_view.h); here they become JSON. The texts that describe their fields are served too
// (api/openapi.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/fields.h"
#include "base/result.h"

namespace carma::api {

// A view as JSON with every field; null: unknown.
template <base::HasFields View>
nlohmann::json ToJson(const View& view);
// Errors: kInvalid with JSON pointer. Unknown fields are ignored, because the daemon may be newer.
template <base::HasFields View>
Result<View> FromJson(const nlohmann::json& json);

}  // namespace carma::api
