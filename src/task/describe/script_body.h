// Finds problems in the commands of a batch script before it runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carma::task {

// Returns one-line warnings with "path:LINE". They concern CUDA_VISIBLE_DEVICES set by the script
// and, in scripts written for Slurm, unsupported commands, words of scontrol and options of srun.
// This is a plain search for words, so uses inside strings or in other files are not found.
std::vector<std::string> BodyWarnings(std::string_view script, std::string_view path, bool slurm);

}  // namespace carma::task
