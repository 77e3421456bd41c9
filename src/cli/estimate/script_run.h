// `carma estimate --run`: runs a training script up to the end of its first step on tensors without
// memory.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace carma::cli {

// The user's command with the helper inserted before the script: {"uv", "run", "python",
// "train.py"} becomes {"uv", "run", "python", HELPER, "--run", "--gpus", GPUS, "train.py"}. Errors:
// kInvalid if it is not a Python script, or is a launcher of several processes.
Result<std::vector<std::string>> WordsOfRun(const std::vector<std::string>& command,
                                            const std::string& helper, const std::string& gpus);

// The layer list that the helper wrote, as JSON. The script runs here, as the caller, with the
// caller's environment and without a GPU; it is killed at a limit. Blocks for minutes at most.
// Errors: kInvalid as above, kNotFound (no such program, no helper installed), kUnavailable if the
// script did not reach a step; the text is one line.
Result<std::string> RunScript(const std::vector<std::string>& command, const std::string& gpus);

}  // namespace carma::cli
