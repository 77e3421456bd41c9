// Converts the API's objects to and from JSON. The objects are structs (*_view.h). The daemon
// answers with them, and the commands print them. The texts of their fields are also used in the
// API's description (api/openapi.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/fields.h"
#include "base/result.h"

namespace carma::api {

// Writes every field of a view. Unknown values become null.
template <base::HasFields View>
nlohmann::json ToJson(const View& view);
// Ignores unknown fields, because the daemon may be newer than this program. Errors: kInvalid with
// the JSON pointer.
template <base::HasFields View>
Result<View> FromJson(const nlohmann::json& json);

}  // namespace carma::api
