// Recognises training configuration files that are passed without a command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::cli {

// Returns the command that trains with this file: "axolotl train FILE", "python3 FILE"; empty for
// other files. text: the file's content. Returns kInvalid for an accelerate or DeepSpeed
// configuration, which describes how training runs but does not name the model.
Result<std::vector<std::string>> CommandOfFile(const std::string& path, std::string_view text);

// True if the file's name suggests a training configuration, so its content is worth reading.
bool MayBeTraining(std::string_view path);

}  // namespace carma::cli
