// Converts common model summaries to layer lists.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/layers.h"

namespace carma::model {

// Recognises the format: torchsummary, torchinfo (with and without input shapes), printed module
// trees with and without ", N params", Keras summary() of TensorFlow 1 and 2 and of Keras 3,
// CARMA's JSON (docs/use/layer-lists.md). `path` is for messages. Other lines around a summary are
// skipped, with a note. Errors: kInvalid "path:line: what, expected" ("path: /json/pointer:
// expected …" for JSON) for text of no known format, two summaries in one file, a truncated table
// or tree, impossible numbers, and anything beyond the limits in layers.h. A readable part that
// seems incomplete gets a Note, never a silent guess.
Result<LayerList> ParseSummary(std::string_view text, std::string_view path);

// Maximum total size of a data set's lines after decompression.
inline constexpr std::size_t kMaxDataSetBytes = std::size_t{1} << 30;

// Reads a data set with one model per line in CARMA's JSON; gzip files are decompressed. Calls
// `take` for each model in order and stops if it returns false. Blank lines are skipped. Errors:
// those of the file (kNotFound, kDenied, kIo), and those of ParseSummary with "path:line:
// /json/pointer: …".
Result<Unit> ForEachModel(const std::string& path, const std::function<bool(LayerList)>& take);

}  // namespace carma::model
