// From words about a training (task/describe/training.h) to a plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "estimate/training_plan.h"
#include "estimate/transformer_config.h"
#include "task/describe/training.h"

namespace carma::estimate {

// What the words ask for; of two with one name the later one counts, config says how weights are
// stored unless a word does. Errors: kInvalid, naming the word, where it came from and what it
// takes: "--method: 'dora': expected full …", "lora.yaml:7: method: …".
base::Result<TrainingPlan> PlanOf(std::span<const task::TrainingWord> words,
                                  const TransformerConfig& config);

// The same for words without a model at hand: whether each means something.
base::Result<base::Unit> CheckWords(std::span<const task::TrainingWord> words);

// What nobody said and what is assumed instead, one sentence each: the length, the batch.
std::vector<std::string> Assumptions(std::span<const task::TrainingWord> words,
                                     const TransformerConfig& config, const TrainingPlan& plan);

// No word tells how long the samples are, and the model does not fix it.
bool AssumesLength(std::span<const task::TrainingWord> said, const TransformerConfig& config);

}  // namespace carma::estimate
