// Reads settings of a training from a submitted command and the files that it names.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "estimate/recipe/plan_files.h"
#include "task/describe/spec.h"

namespace carma::estimate {

struct TrainingFound {
  TrainingWords words;             // in increasing precedence; empty: no training was recognised
  std::string config;              // absolute path of the model's config.json; empty: not found
  std::vector<std::string> notes;  // one sentence per problem
};

// path: absolute. May block as long as a file system does.
using FileReader =
    std::function<Result<std::string>(const std::string& path, std::size_t max_bytes)>;

// Reads the task's script or command as text; nothing is executed. `read` reads the files that it
// names: configurations of the training, and the model's config.json in its folder or in Hugging
// Face's cache. If a script starts several training runs, the run that needs the most memory is
// used. At most kMaxTrainingFiles files of kMaxConfigBytes each.
inline constexpr int kMaxTrainingFiles = 40;
TrainingFound FindTraining(const task::TaskSpec& spec, const FileReader& read);

}  // namespace carma::estimate
