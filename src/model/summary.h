// Converts common model summaries to layer lists.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/layers.h"

namespace carma::model {

// Recognises the format by its text: torchsummary, torchinfo (with and without input shapes),
// printed module trees with and without ", N params", Keras summary() of TensorFlow 1 and 2 and of
// Keras 3, CARMA's JSON (docs/use/layer-lists.md). `path` is for messages. Other lines around a
// summary are skipped, with a note. Errors: kInvalid "path:line: what, expected" ("path:
// /json/pointer: expected …" for JSON) for text of no known format, two summaries in one file, a
// table or tree that is cut off, numbers that make no sense, and everything beyond the limits in
// layers.h. A readable but incomplete-looking part gets a Note, never a silent guess.
Result<LayerList> ParseSummary(std::string_view text, std::string_view path);

// Maximum size of all lines of a data set, unpacked.
inline constexpr std::size_t kMaxDataSetBytes = std::size_t{1} << 30;

// Reads a data set: one model per line in the same JSON; a gzip file is unpacked on the fly. Calls
// `take` for each in order; returning false stops. Blank lines are skipped. Errors: those of the
// file (kNotFound, kDenied, kIo), and those of ParseSummary with "path:line: /json/pointer: …".
Result<Unit> ForEachModel(const std::string& path, const std::function<bool(LayerList)>& take);

}  // namespace carma::model
