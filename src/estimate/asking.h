// Converts a task's description into a Question, for the daemon and for `carma estimate`.
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

// The parsed contents of a model summary or of a Hugging Face config.json.
struct Summary {
  std::optional<model::LayerList> layers;
  std::optional<TransformerConfig> transformer;  // at most one of the two is set
  std::string fingerprint;  // fingerprint of the one that is set; empty if neither is
  std::string trouble;      // why neither is set: "model.txt:12: …"; empty if no file was named
};
// text: the contents of the file at `path`, or the error from reading it.
Summary ReadSummary(const Result<std::string>& text, const std::string& path);

// Converts a task's description into a Question. `spec` and `summary` must outlive the Question. A
// missing batch size, optimizer or precision is taken from the summary. The caller adds the facts
// about the server: GPU, coverage, site, history. Messages for the user, for example about an
// unknown optimizer, are appended to `remarks`.
Question QuestionOf(const task::TaskSpec& spec, std::uint32_t uid, const Summary& summary,
                    std::vector<std::string>& remarks);

// Lists the training settings that were read from files: "read: seq-len 4096 (train.sh:3:
// --max_length), …". Empty if there are none.
std::string FoundText(const task::TaskSpec& spec);

// The result of the structural formula with the shipped constants, for calibration. Empty if there
// are no layers, if most layers are hidden, or if the formula cannot be applied.
std::optional<task::FormulaSplit> SplitFormula(const Estimator& structural, Question question);

// The memory to promise a task, given an estimator's answer: the bound, or the point estimate if no
// coverage is requested. Capped at gpu_mib (0 if unknown) so that a wrong prediction never causes a
// task to be refused.
std::int64_t PromiseOf(const Answer& answer, double coverage, std::int64_t gpu_mib);

}  // namespace carma::estimate
