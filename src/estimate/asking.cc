#include "estimate/asking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "estimate/signature.h"
#include "estimate/training_words.h"
#include "model/features.h"
#include "model/summary.h"

namespace carma::estimate {
namespace {

// Parses the task's own setting, or the summary's if the task has none.
template <class Value>
std::optional<Value> Known(const std::optional<std::string>& stated,
                           const std::optional<std::string>& noted, const char* what,
                           std::optional<Value> (*parse)(std::string_view),
                           std::vector<std::string>& remarks) {
  const std::optional<std::string>& word = stated ? stated : noted;
  if (!word) return std::nullopt;
  const std::optional<Value> value = parse(*word);
  if (!value) {
    remarks.push_back(std::string(what) + " '" + base::Printable(*word, 40) +
                      "' is not supported by the estimators");
  }
  return value;
}

// A transformer's training settings. Settings stated by the task come last, so they override those
// found in files.
std::vector<task::TrainingWord> WordsOf(const task::TaskSpec& spec) {
  std::vector<task::TrainingWord> words = spec.training;
  if (spec.batch_size) words.push_back({"batch", std::to_string(*spec.batch_size), ""});
  if (spec.optimizer) words.push_back({"optimizer", *spec.optimizer, ""});
  if (spec.precision) words.push_back({"precision", *spec.precision, ""});
  // A single GPU is the default and needs no setting.
  if (spec.gpus > 1) words.push_back({"gpus", std::to_string(spec.gpus), ""});
  return words;
}

void AskTransformer(const task::TaskSpec& spec, const TransformerConfig& config,
                    Question& question) {
  const std::vector<task::TrainingWord> words = WordsOf(spec);
  Result<TrainingPlan> plan = PlanOf(words, config);
  if (!plan) {
    question.summary_trouble = plan.error().message;
    return;
  }
  question.assumed = Assumptions(words, config, *plan);
  question.assumes_length = AssumesLength(words, config);
  question.transformer = &config;
  question.plan = *plan;
}

bool IsHfConfig(std::string_view text) {
  return text.size() <= kMaxConfigBytes && base::Trim(text.substr(0, 100)).starts_with('{') &&
         (text.contains("\"model_type\"") || text.contains("\"_class_name\""));
}

void SplitBatch(Question& question, std::vector<std::string>& remarks) {
  if (question.layers == nullptr || !question.batch) return;
  const std::int64_t all = *question.batch;
  question.batch = model::BatchOfOneGpu(*question.layers, all, question.gpus);
  if (question.batch == all) return;
  remarks.push_back(
      fmt::format("DataParallel splits the batch of {} across {} GPUs: {} samples each", all,
                  question.gpus, *question.batch));
}

}  // namespace

Summary ReadSummary(const Result<std::string>& text, const std::string& path) {
  Summary summary;
  if (text && IsHfConfig(*text)) {
    Result<TransformerConfig> config = ParseTransformerConfig(*text, path);
    if (config) {
      summary.fingerprint = Fingerprint(*config);
      summary.transformer = *std::move(config);
    } else {
      summary.trouble = config.error().message;
    }
    return summary;
  }
  Result<model::LayerList> layers =
      text ? model::ParseSummary(*text, path) : std::unexpected(text.error());
  if (layers) {
    summary.fingerprint = Fingerprint(*layers);
    summary.layers = *std::move(layers);
  } else {
    summary.trouble = layers.error().message;
  }
  return summary;
}

Question QuestionOf(const task::TaskSpec& spec, std::uint32_t uid, const Summary& summary,
                    std::vector<std::string>& remarks) {
  static const model::LayerList kNoLayers;
  const model::LayerList& layers = summary.layers ? *summary.layers : kNoLayers;
  Question question;
  if (summary.layers) question.layers = &layers;
  question.summary_trouble = summary.trouble;
  question.batch = spec.batch_size ? spec.batch_size : layers.batch;
  if (summary.transformer) {
    AskTransformer(spec, *summary.transformer, question);
  } else {
    question.optimizer =
        Known(spec.optimizer, layers.optimizer, "optimizer", &ParseOptimizer, remarks);
    question.precision =
        Known(spec.precision, layers.precision, "precision", &ParsePrecision, remarks);
    if (const auto plan = PlanOf(spec.training, {}); plan && !summary.layers)
      question.share = plan->rollout_share;
  }
  question.gpus = spec.gpus;
  SplitBatch(question, remarks);
  question.given_mib = spec.memory_mib;
  question.given_source = spec.memory_source;
  question.signature = Signature(spec, uid, summary.fingerprint);
  question.kin = Kin(spec, uid);
  question.relation = Relation(spec, uid, summary.fingerprint);
  question.amounts = AmountsOf(spec);
  return question;
}

std::string FoundText(const task::TaskSpec& spec) {
  std::vector<std::string> found;
  for (const task::TrainingWord& word : spec.training) {
    if (!word.from.empty()) found.push_back(word.name + " " + word.value + " (" + word.from + ")");
  }
  return found.empty() ? "" : "read: " + base::Join(found, ", ");
}

std::optional<task::FormulaSplit> SplitFormula(const Estimator& structural, Question question) {
  if (question.layers == nullptr || model::HidesMost(*question.layers)) return std::nullopt;
  question.site = nullptr;
  const Result<Answer> answer = structural.Ask(question);
  if (!answer) return std::nullopt;
  const auto context = std::ranges::find_if(
      answer->terms, [](const Term& term) { return term.name == kContextTerm; });
  if (context == answer->terms.end()) return std::nullopt;
  const auto context_mib = static_cast<std::int64_t>(std::lround(context->mib));
  return task::FormulaSplit{context_mib,
                            std::max<std::int64_t>(0, answer->point_mib - context_mib)};
}

std::int64_t PromiseOf(const Answer& answer, double coverage, std::int64_t gpu_mib) {
  const std::int64_t wanted_mib =
      coverage > 0 ? std::max(answer.bound_mib, answer.point_mib) : answer.point_mib;
  return gpu_mib > 0 ? std::min(wanted_mib, gpu_mib) : wanted_mib;
}

}  // namespace carma::estimate
