// Reads CARMA's own layer lists: one JSON object per model (docs/use/layer-lists.md).
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/layers.h"

namespace carma::model {

// text: exactly one object. Errors: kInvalid "place: /layers/3/1: expected …". The pointer is
// missing if the JSON is malformed.
Result<LayerList> ReadLayerList(std::string_view text, std::string_view place);

}  // namespace carma::model
