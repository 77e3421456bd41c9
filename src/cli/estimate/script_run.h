// `carma estimate --run`: runs a training script until the end of its first step, with tensors that
// take no memory.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace carma::cli {

// Inserts the helper before the script in the user's command: {"uv", "run", "python", "train.py"}
// becomes {"uv", "run", "python", HELPER, "--run", "--gpus", GPUS, "train.py"}. Returns kInvalid if
// the command is not a Python script or launches several processes.
Result<std::vector<std::string>> WordsOfRun(const std::vector<std::string>& command,
                                            const std::string& helper, const std::string& gpus);

// Runs the script and returns the layer list that the helper wrote, as JSON. The script runs on
// this machine with the caller's privileges and environment, but without a GPU. It is killed after
// a time limit of a few minutes. Returns a one-line error: kInvalid as for WordsOfRun, kNotFound if
// the program or the helper does not exist, or kUnavailable if the script did not reach a step.
Result<std::string> RunScript(const std::vector<std::string>& command, const std::string& gpus);

}  // namespace carma::cli
