// What can be seen of a task before it waits for its turn. The daemon looks at none of it: files
// are the user's affair.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "task/describe/spec.h"

namespace carma::cli {

// Its working folder, program, script (of python3 train.py), conda environment are there for the
// caller, and its output files can be written. Errors: kInvalid, one sentence.
base::Result<base::Unit> CheckItCanStart(const task::TaskSpec& spec);

// Of a task of a sweep: each {NAME} in its command is a parameter. Errors: kInvalid.
base::Result<base::Unit> CheckParameters(const task::TaskSpec& spec);

// One line each: what may surprise though the task can start.
std::vector<std::string> StartWarnings(const task::TaskSpec& spec);

// The file that an interpreter is to run: of "python3 -u train.py" train.py.
std::optional<std::string> ScriptOf(const std::vector<std::string>& command);

// "" or ", did you mean train.sh?", from the files beside it.
std::string SimilarFile(const std::string& path);

}  // namespace carma::cli
