// Finds problems in a batch script's commands before it runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carma::task {

// Returns one-line warnings with "path:LINE". They concern commands that set CUDA_VISIBLE_DEVICES.
// If the script was written for Slurm, they also concern unsupported commands, scontrol arguments
// and srun options. This is a plain word search, so uses inside strings or in other files are not
// found.
std::vector<std::string> BodyWarnings(std::string_view script, std::string_view path, bool slurm);

}  // namespace carma::task
