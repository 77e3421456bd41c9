// Turns the words that describe a training (task/describe/training.h) into a plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "estimate/training_plan.h"
#include "estimate/transformer_config.h"
#include "task/describe/training.h"

namespace carma::estimate {

// The plan that the words describe. If two words have the same name, the later one is used. If no
// word states how weights are stored, config.json decides. Errors: kInvalid, naming the word, its
// source and what is expected: "--method: 'dora': expected full …", "lora.yaml:7: method: …".
Result<TrainingPlan> PlanOf(std::span<const task::TrainingWord> words,
                            const TransformerConfig& config);

// Checks words before the model is known: each must be valid by itself.
Result<Unit> CheckWords(std::span<const task::TrainingWord> words);

// The assumptions for what no word states (such as the length and the batch), one sentence each.
std::vector<std::string> Assumptions(std::span<const task::TrainingWord> words,
                                     const TransformerConfig& config, const TrainingPlan& plan);

// Whether the length of samples is an assumption: no word states it, and the model does not fix it.
bool AssumesLength(std::span<const task::TrainingWord> said, const TransformerConfig& config);

}  // namespace carma::estimate
