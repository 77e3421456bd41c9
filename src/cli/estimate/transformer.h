// `carma estimate --hf-config`: closed-form estimates from a transformer's config.json and options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "estimate/training_plan.h"
#include "estimate/transformer/peak.h"
#include "estimate/transformer_config.h"
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

std::string TransformerText(const std::string& file, const estimate::TransformerConfig& config,
                            const estimate::TrainingPlan& plan,
                            const estimate::TransformerEstimate& estimate);
// One JSON object; see docs/use/api.md.
std::string TransformerJson(const std::string& file, const estimate::TransformerConfig& config,
                            const estimate::TransformerEstimate& estimate);

// Reads the files, estimates and prints.
Result<Unit> RunTransformer(Context& context, const TransformerFlags& flags);

}  // namespace carma::cli
