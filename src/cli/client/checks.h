// Checks a task before it is submitted. The daemon cannot do this, because it does not read users'
// files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "task/describe/spec.h"

namespace carma::cli {

// Checks, with the caller's permissions, that the task's working folder, program, script (as in
// python3 train.py) and conda environment exist, and that its output files can be written. lease:
// for `carma lease`, which runs a script without an interpreter line in a shell. Returns kInvalid,
// with a one-sentence message, if a check fails.
Result<Unit> CheckItCanStart(const task::TaskSpec& spec, bool lease = false);

// Checks that each {NAME} in a sweep task's command, name and output paths is a parameter, and
// returns kInvalid if not.
Result<Unit> CheckParameters(const task::TaskSpec& spec);

// Warnings, one line each, about a task that can start.
std::vector<std::string> StartWarnings(const task::TaskSpec& spec);

// True if this submit option has no effect on a task without GPUs.
bool IsGpuOption(std::string_view option);

// The file that an interpreter in this command will run: train.py for "python3 -u train.py".
std::optional<std::string> ScriptOf(const std::vector<std::string>& command);

// Returns ", did you mean train.sh?" if a file in the same folder has a similar name, else "".
std::string SimilarFile(const std::string& path);

}  // namespace carma::cli
