#include "estimate/asking.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "estimate/signature.h"
#include "model/summary.h"

namespace carma::estimate {
namespace {

// The task's own word, else the summary's; `parse` knows the words.
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
                      "' is not known to the estimators");
  }
  return value;
}

}  // namespace

Summary ReadSummary(const base::Result<std::string>& text, const std::string& path) {
  Summary summary;
  base::Result<model::LayerList> layers =
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
  question.optimizer =
      Known(spec.optimizer, layers.optimizer, "optimizer", &ParseOptimizer, remarks);
  question.precision =
      Known(spec.precision, layers.precision, "precision", &ParsePrecision, remarks);
  question.gpus = spec.gpus;
  question.given_mib = spec.memory_mib;
  question.given_source = spec.memory_source;
  question.signature = Signature(spec, uid, summary.fingerprint);
  question.kin = Kin(spec, uid);
  return question;
}

std::optional<task::FormulaSplit> SplitFormula(const Estimator& structural, Question question) {
  if (question.layers == nullptr) return std::nullopt;
  question.site = nullptr;
  const base::Result<Answer> answer = structural.Ask(question);
  if (!answer) return std::nullopt;
  const auto context = std::find_if(answer->terms.begin(), answer->terms.end(),
                                    [](const Term& term) { return term.name == kContextTerm; });
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
