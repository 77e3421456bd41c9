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

// Builds the plan that the words describe. If several words have the same name, the last one wins.
// If no word sets how the weights are stored, config.json decides. Returns kInvalid for an invalid
// word, with its source and the expected values, such as "--method: 'dora': expected full …" or
// "lora.yaml:7: method: …".
Result<TrainingPlan> PlanOf(std::span<const task::TrainingWord> words,
                            const TransformerConfig& config);

// Checks the words before the model is known.
Result<Unit> CheckWords(std::span<const task::TrainingWord> words);

// Appends `word` to `words` if it is valid. Otherwise appends the error message to `notes`.
void AddIfValid(task::TrainingWord word, std::vector<task::TrainingWord>& words,
                std::vector<std::string>& notes);

// Returns one sentence for each setting that had to be assumed, such as the batch size, and one for
// each word that has no effect.
std::vector<std::string> Assumptions(std::span<const task::TrainingWord> words,
                                     const TransformerConfig& config, const TrainingPlan& plan);

// Returns true if the sample length must be assumed, because no word sets it and the model does not
// fix it.
bool AssumesLength(std::span<const task::TrainingWord> said, const TransformerConfig& config);

}  // namespace carma::estimate
