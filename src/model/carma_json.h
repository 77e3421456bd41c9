// Reads CARMA's own layer lists, which have one JSON object per model (docs/use/layer-lists.md).
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/layers.h"

namespace carma::model {

// text: exactly one object. Returns kInvalid "place: /layers/3/1: expected …" for invalid values.
// If the JSON is malformed, the message has no pointer.
Result<LayerList> ReadLayerList(std::string_view text, std::string_view place);

}  // namespace carma::model
