// Model summaries as people have them → layer lists.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/layers.h"

namespace carma::model {

// Recognises the format by its text: torchsummary, torchinfo (with and without input shapes),
// printed module trees, Keras summary(), CARMA's JSON (docs/layer-lists.md). `path` is for
// messages. Errors: kInvalid "path:line: what, expected" for text of no known format, for two
// formats in one file, numbers that make no sense, and everything beyond the limits of layers.h.
// What could be read but looks incomplete becomes a Note, never a guess.
base::Result<LayerList> ParseSummary(std::string_view text, std::string_view path);

// One model per line in the same JSON, many models (data sets); a gzip file is unpacked on the way.
// Calls `take` for each in order; a false answer stops. Errors: as ParseSummary, "path:line: …".
base::Result<base::Unit> ForEachModel(const std::string& path,
                                      const std::function<bool(LayerList)>& take);

}  // namespace carma::model
