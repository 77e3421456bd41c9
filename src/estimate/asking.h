// Makes a Question from a task's description, for the daemon and for `carma estimate`.
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

// A model summary, or a Hugging Face config.json instead, if readable.
struct Summary {
  std::optional<model::LayerList> layers;
  std::optional<TransformerConfig> transformer;  // one of the two at most
  std::string fingerprint;                       // of either; empty without
  std::string trouble;  // why there are none: "model.txt:12: …"; empty: none was named
};
// text: the contents of the file at `path`, or why it could not be read.
Summary ReadSummary(const Result<std::string>& text, const std::string& path);

// Turns the description into a Question; `spec` and `summary` must outlive it. Missing batch size,
// optimizer and precision are taken from the summary if given there. The caller adds the server's
// part: GPU, coverage, site, history. remarks: messages for the user, such as an unknown optimizer
// or precision.
Question QuestionOf(const task::TaskSpec& spec, std::uint32_t uid, const Summary& summary,
                    std::vector<std::string>& remarks);

// "read: seq-len 4096 (train.sh:3: --max_length), …": settings of the training that were read from
// files, not stated; empty if there are none.
std::string FoundText(const task::TaskSpec& spec);

// The structural formula's result with the shipped constants, for the calibration. Empty if there
// are no layers, if most of them are hidden, or if the formula has no answer.
std::optional<task::FormulaSplit> SplitFormula(const Estimator& structural, Question question);

// The promise for this answer: the bound, or the point if no coverage is requested; never more than
// gpu_mib (0: unknown), because a wrong prediction must not refuse a task.
std::int64_t PromiseOf(const Answer& answer, double coverage, std::int64_t gpu_mib);

}  // namespace carma::estimate
