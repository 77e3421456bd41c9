// Recognises training configuration files that are given without a command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::cli {

// Returns the command that trains with this file: "axolotl train FILE", "python3 FILE"; empty for
// other files. text: the file's content. Errors: kInvalid, one line, if the file describes how a
// training runs but not which model: a configuration of accelerate or DeepSpeed.
Result<std::vector<std::string>> CommandOfFile(const std::string& path, std::string_view text);

// Whether the file may be a training configuration, judging by its name, so that its content is
// worth reading.
bool MayBeTraining(std::string_view path);

}  // namespace carma::cli
