// Converts the common formats of model summaries to layer lists.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/layers.h"

namespace carma::model {

// Parses a summary in any of these formats:
// - torchsummary
// - torchinfo, with or without input shapes
// - a printed module tree, with or without ", N params"
// - Keras summary() of TensorFlow 1 and 2 and of Keras 3
// - CARMA's JSON (docs/use/layer-lists.md)
// Adds a Note if lines around the summary were skipped, or if the readable part seems incomplete.
// Returns kInvalid if the format is unknown, the file contains two summaries, a table or tree is
// truncated, a number is impossible, or a limit (layers.h) is exceeded. Errors begin with `path`
// and the line or JSON pointer, and state what was expected.
Result<LayerList> ParseSummary(std::string_view text, std::string_view path);

// Maximum total size of a data set after decompression.
inline constexpr std::size_t kMaxDataSetBytes = std::size_t{1} << 30;

// Reads a data set with one model per line in CARMA's JSON. Decompresses gzip files and skips blank
// lines. Calls `take` for each model in order. Returns kNotFound, kDenied or kIo if the file cannot
// be read, or an error of ParseSummary with "path:line: /json/pointer: …".
Result<Unit> ForEachModel(const std::string& path, const std::function<void(LayerList)>& take);

}  // namespace carma::model
