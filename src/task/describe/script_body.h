// Finds problems in a batch script's commands before it runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carma::task {

// Returns one-line warnings with "path:LINE" about commands that set CUDA_VISIBLE_DEVICES. For a
// script written for Slurm, also warns about unsupported commands, scontrol arguments and srun
// options. This is a plain word search, so it misses uses inside strings or in other files.
std::vector<std::string> BodyWarnings(std::string_view script, std::string_view path, bool slurm);

}  // namespace carma::task
