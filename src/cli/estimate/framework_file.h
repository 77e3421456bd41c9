// Configurations of trainings, given without the command that reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::cli {

// The command that trains with this file: "axolotl train FILE", "python3 FILE". Empty: not such a
// file. text: its content. Errors: kInvalid, one line, if the file describes how a training runs
// but not for which model: a configuration of accelerate or DeepSpeed.
Result<std::vector<std::string>> CommandOfFile(const std::string& path, std::string_view text);

// Whether such files have this kind of name, so that the content is worth reading.
bool MayBeTraining(std::string_view path);

}  // namespace carma::cli
