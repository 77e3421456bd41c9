// Converts the words that describe a training run (task/describe/training.h) to a plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "estimate/training_plan.h"
#include "estimate/transformer_config.h"
#include "task/describe/training.h"

namespace carma::estimate {

// The plan that the words describe. If several words have the same name, the last is used. If no
// word states how weights are stored, the value in config.json is used. Returns kInvalid for an
// invalid word, with its source and the expected values, such as "--method: 'dora': expected full
// …" or "lora.yaml:7: method: …".
Result<TrainingPlan> PlanOf(std::span<const task::TrainingWord> words,
                            const TransformerConfig& config);

// Checks the words before the model is known.
Result<Unit> CheckWords(std::span<const task::TrainingWord> words);

// Adds a word that is valid. Otherwise adds the reason to `notes`.
void AddIfValid(task::TrainingWord word, std::vector<task::TrainingWord>& words,
                std::vector<std::string>& notes);

// One sentence for each setting that is assumed because no word states it, such as length and
// batch.
std::vector<std::string> Assumptions(std::span<const task::TrainingWord> words,
                                     const TransformerConfig& config, const TrainingPlan& plan);

// Whether the sample length is an assumption, because no word states it and the model does not fix
// it.
bool AssumesLength(std::span<const task::TrainingWord> said, const TransformerConfig& config);

}  // namespace carma::estimate
