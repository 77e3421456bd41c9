// Converts the API's objects to and from JSON. The objects are the structs in *_view.h, which the
// daemon returns and the commands print. OpenApiJson() (api/openapi.h) describes their fields.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/fields.h"
#include "base/result.h"

namespace carma::api {

// Writes every field of a view. Unknown values become null.
template <base::HasFields View>
nlohmann::json ToJson(const View& view);
// Ignores unknown fields, because the daemon may be newer than this program. Returns kInvalid with
// a JSON pointer if a field is invalid.
template <base::HasFields View>
Result<View> FromJson(const nlohmann::json& json);

}  // namespace carma::api
