#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "entries.h"
#include "estimate/estimator.h"
#include "estimate/recipe/plan_files.h"
#include "estimate/training_words.h"
#include "estimate/transformer/peak.h"
#include "estimate/transformer_config.h"
#include "model/features.h"
#include "model/summary.h"

namespace carma::fuzz {
namespace {

bool IsOneLine(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos;
}

void CheckLayer(const model::Layer& layer) {
  CARMA_CHECK(!layer.type.empty(), "a row has a type");
  CARMA_CHECK(layer.params >= 0 && layer.trainable >= 0 && layer.trainable <= layer.params,
              "a row has no more trainable parameters than parameters");
  CARMA_CHECK(
      layer.in.Elements() < model::kMaxElements && layer.out.Elements() < model::kMaxElements,
      "tensors are within the limits");
  CARMA_CHECK(!layer.dropout || (*layer.dropout >= 0 && *layer.dropout <= 1), "a rate is a share");
}

// Checks that, for any sizes, a prediction has finite terms and a bound that is not below its point
// estimate.
void CheckEstimates(const model::LayerList& list) {
  estimate::Question question;
  question.layers = &list;
  for (const auto make :
       {estimate::MakeStructural, estimate::MakeHorus, estimate::MakeFakeTensor}) {
    for (const std::int64_t batch : {std::int64_t{1}, std::int64_t{1} << 40}) {
      question.batch = batch;
      const auto answer = make()->Ask(question);
      if (!answer) continue;
      CARMA_CHECK(answer->point_mib >= 0 && answer->bound_mib >= answer->point_mib,
                  "a bound is not below its point estimate");
      for (const estimate::Term& term : answer->terms)
        CARMA_CHECK(std::isfinite(term.mib), "a term is a number");
    }
  }
}

// Plans that together cover every part of the formula.
std::vector<estimate::TrainingPlan> Plans() {
  estimate::TrainingPlan full{.sequence = 1'000'000'000, .batch = 1'000'000};
  full.attention = estimate::Attention::kEager;
  estimate::TrainingPlan lora{.sequence = 1, .method = estimate::Method::kLora};
  lora.lora_targets = *estimate::ParseLoraTargets("all");
  lora.data_parallel = estimate::DataParallel::kFsdp;
  lora.ranks = 8;
  lora.tensor_parallel = 2;
  lora.checkpointing = estimate::Checkpointing::kFull;
  lora.gpu_mib = 1;
  estimate::TrainingPlan zero{.sequence = 4096};
  zero.data_parallel = estimate::DataParallel::kZero3;
  zero.ranks = 3;
  zero.pipeline = 2;
  return {full, lora, zero};
}

}  // namespace

void FuzzHfConfig(std::string_view bytes) {
  for (const auto read : {&estimate::ReadDeepSpeed, &estimate::ReadAdapterConfig}) {
    const auto words = read(bytes, "plan.json");
    CARMA_CHECK(words || IsOneLine(words.error().message), "an error message is one line");
    if (words) CARMA_CHECK(estimate::CheckWords(*words).has_value(), "parsed words are valid");
  }
  const auto config = estimate::ParseTransformerConfig(bytes, "config.json");
  if (!config) {
    CARMA_CHECK(IsOneLine(config.error().message), "an error message is one line");
    return;
  }
  CARMA_CHECK(config->TotalParameters() > 0, "a model has parameters");
  for (const estimate::TrainingPlan& plan : Plans()) {
    const auto estimate = estimate::EstimateTransformer(*config, plan, 0.95);
    if (!estimate) continue;
    CARMA_CHECK(std::isfinite(estimate->parts.Sum()) && estimate->parts.Sum() > 0,
                "parts are numbers");
    CARMA_CHECK(estimate->shown.bound_mib >= estimate->shown.point_mib &&
                    estimate->shown.point_mib >= estimate->needed.point_mib,
                "a bound is not below its point estimate, and the shown memory is not below the "
                "needed memory");
  }
}

void FuzzSummary(std::string_view bytes) {
  const auto list = model::ParseSummary(bytes, "fuzz.model");
  if (!list) {
    CARMA_CHECK(IsOneLine(list.error().message), "an error message is one line");
    return;
  }
  CARMA_CHECK(!list->layers.empty() && list->layers.size() <= model::kMaxLayers,
              "the number of layers is within the limits");
  CARMA_CHECK(list->params >= 0 && list->params <= model::kMaxElements && list->trainable >= 0 &&
                  list->trainable <= list->params,
              "the totals are within the limits");
  for (const model::Layer& layer : list->layers) CheckLayer(layer);
  for (const model::Note& note : list->notes)
    CARMA_CHECK(IsOneLine(note.text), "a note is one line");
  const model::Features features = model::Summarize(*list);
  CARMA_CHECK(features.activations >= 0 && features.depth <= static_cast<int>(list->layers.size()),
              "features are not negative, and the depth is at most the number of layers");
  (void)model::Classify(*list);
  CheckEstimates(*list);
}

}  // namespace carma::fuzz
