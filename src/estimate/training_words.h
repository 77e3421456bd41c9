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

// The plan that the words describe. Of words with the same name, the last is used. If no word
// states how weights are stored, config.json decides. Errors: kInvalid with the word, its source
// and the expected values: "--method: 'dora': expected full …", "lora.yaml:7: method: …".
Result<TrainingPlan> PlanOf(std::span<const task::TrainingWord> words,
                            const TransformerConfig& config);

// Checks each word by itself, before the model is known.
Result<Unit> CheckWords(std::span<const task::TrainingWord> words);

// The assumptions for settings that no word states (such as length and batch), one sentence each.
std::vector<std::string> Assumptions(std::span<const task::TrainingWord> words,
                                     const TransformerConfig& config, const TrainingPlan& plan);

// Whether the length of samples is assumed, because no word states it and the model does not fix
// it.
bool AssumesLength(std::span<const task::TrainingWord> said, const TransformerConfig& config);

}  // namespace carma::estimate
