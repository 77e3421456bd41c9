// Finds the settings of a training run in a submitted command and in the files that the command
// refers to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "estimate/recipe/plan_files.h"
#include "task/describe/spec.h"

namespace carma::estimate {

struct TrainingFound {
  TrainingWords words;             // in increasing precedence; empty: no training run recognised
  std::string config;              // absolute path of the model's config.json; empty: not found
  std::vector<std::string> notes;  // one sentence per problem
};

// path: must be absolute. The call may block as long as the file system does.
using FileReader =
    std::function<Result<std::string>(const std::string& path, std::size_t max_bytes)>;

// Reads the task's script or command as text; nothing is executed. Uses `read` for the files that
// the command refers to: training configurations, and the model's config.json in its folder or in
// the Hugging Face cache. If a script starts several training runs, or its conditions decide
// between settings, uses the run that needs the most memory. An inference engine counts as a run
// without a config.json. Reads at most kMaxTrainingFiles files, each limited to
// task::kMaxScriptBytes (shell scripts) or kMaxConfigBytes (all others).
inline constexpr int kMaxTrainingFiles = 40;
TrainingFound FindTraining(const task::TaskSpec& spec, const FileReader& read);

}  // namespace carma::estimate
