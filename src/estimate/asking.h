// From a task as its user describes it to a question: the same for the daemon and for
// `carma estimate`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "estimate/estimator.h"
#include "model/layers.h"
#include "task/describe/spec.h"
#include "task/verdict/observation.h"

namespace carma::estimate {

// A model summary, or a Hugging Face config.json in its place, as far as it could be read.
struct Summary {
  std::optional<model::LayerList> layers;
  std::optional<TransformerConfig> transformer;  // one of the two at most
  std::string fingerprint;                       // of either; empty without
  std::string trouble;  // why there are none: "model.txt:12: …"; empty: none was named
};
// text: of the file at `path`, or why it could not be read.
Summary ReadSummary(const base::Result<std::string>& text, const std::string& path);

// What the description says; `spec` and `summary` must outlive the question. What it leaves open
// (batch size, optimizer, precision) is taken from the summary where that says it. The caller adds
// what the server knows: GPU, coverage, site, history.
// remarks: what the user should know: an optimizer or a precision that no estimator knows.
Question QuestionOf(const task::TaskSpec& spec, std::uint32_t uid, const Summary& summary,
                    std::vector<std::string>& remarks);

// "read: seq-len 4096 (train.sh:3: --max_length), …": what was not said but found of the training;
// empty: nothing.
std::string FoundText(const task::TaskSpec& spec);

// What the structural formula says with the shipped constants, for the calibration; empty without
// layers, where most of them are hidden, and where it has no answer.
std::optional<task::FormulaSplit> SplitFormula(const Estimator& structural, Question question);

// What is promised for this answer: the bound, or the point where no coverage is asked for; never
// more than gpu_mib (0: not known), because a prediction may be wrong and must not refuse a task.
std::int64_t PromiseOf(const Answer& answer, double coverage, std::int64_t gpu_mib);

}  // namespace carma::estimate
