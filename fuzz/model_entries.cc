#include <cmath>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "entries.h"
#include "estimate/estimator.h"
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
              "a row trains at most its parameters");
  CARMA_CHECK(
      layer.in.Elements() < model::kMaxElements && layer.out.Elements() < model::kMaxElements,
      "tensors are within the limits");
  CARMA_CHECK(!layer.dropout || (*layer.dropout >= 0 && *layer.dropout <= 1), "a rate is a share");
}

// Whatever the sizes, an answer has a bound at or above its point and terms that are numbers.
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
                  "a bound is not below its point");
      for (const estimate::Term& term : answer->terms)
        CARMA_CHECK(std::isfinite(term.mib), "a term is a number");
    }
  }
}

}  // namespace

void FuzzSummary(std::string_view bytes) {
  const auto list = model::ParseSummary(bytes, "fuzz.model");
  if (!list) {
    CARMA_CHECK(IsOneLine(list.error().message), "an error is one line");
    return;
  }
  CARMA_CHECK(!list->layers.empty() && list->layers.size() <= model::kMaxLayers,
              "a summary has layers, and not too many");
  CARMA_CHECK(list->params >= 0 && list->params <= model::kMaxElements && list->trainable >= 0 &&
                  list->trainable <= list->params,
              "the totals are within the limits");
  for (const model::Layer& layer : list->layers) CheckLayer(layer);
  for (const model::Note& note : list->notes)
    CARMA_CHECK(IsOneLine(note.text), "a note is one line");
  const model::Features features = model::Summarize(*list);
  CARMA_CHECK(features.activations >= 0 && features.depth <= static_cast<int>(list->layers.size()),
              "features count what is there");
  (void)model::Classify(*list);
  CheckEstimates(*list);
}

}  // namespace carma::fuzz
