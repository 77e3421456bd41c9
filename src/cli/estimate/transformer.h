// `carma estimate --hf-config`: closed-form estimates from a transformer's config.json and options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "task/describe/description.h"
#include "task/describe/training.h"

namespace carma::cli {

inline constexpr double kUsualCoverage = 0.9;  // for an estimate without a daemon

struct TransformerFlags {
  std::string config;                      // path of config.json; "-" is standard input
  std::vector<task::TrainingWord> words;   // from options, in the given order
  std::vector<task::PlanFile> plan_files;  // files that add to `words`
  double coverage = 0;                     // 0 for kUsualCoverage
  std::int64_t gpu_mib = 0;                // 0 if unknown
};

// Adds the options that describe a training run.
void AddTransformerOptions(Syntax verb, TransformerFlags& flags);

// The file that describes the model if the path is a model's folder; otherwise the path itself.
std::string ConfigFileOf(const std::string& path);

// Reads the files and prints the estimate.
Result<Unit> RunTransformer(Context& context, const TransformerFlags& flags);

}  // namespace carma::cli
