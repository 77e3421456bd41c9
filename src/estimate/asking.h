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

// A model summary or, in its place, a Hugging Face config.json, if readable.
struct Summary {
  std::optional<model::LayerList> layers;
  std::optional<TransformerConfig> transformer;  // at most one of the two is set
  std::string fingerprint;                       // of either; empty if neither is set
  std::string trouble;  // why neither is set: "model.txt:12: …"; empty: no file was named
};
// text: the contents of the file at `path`, or the error of reading it.
Summary ReadSummary(const Result<std::string>& text, const std::string& path);

// Turns the description into a Question; `spec` and `summary` must outlive it. If batch size,
// optimizer or precision are missing, they are taken from the summary. The caller adds the facts
// about the server: GPU, coverage, site, history. remarks: messages for the user, for example about
// an unknown optimizer.
Question QuestionOf(const task::TaskSpec& spec, std::uint32_t uid, const Summary& summary,
                    std::vector<std::string>& remarks);

// Lists settings of the training that were read from files instead of stated: "read: seq-len 4096
// (train.sh:3: --max_length), …". Empty if there are none.
std::string FoundText(const task::TaskSpec& spec);

// The structural formula's result with the shipped constants, for the calibration. Empty if there
// are no layers, if most of them are hidden, or if the formula has no answer.
std::optional<task::FormulaSplit> SplitFormula(const Estimator& structural, Question question);

// The promise for an answer: the bound, or the point if no coverage is requested. At most gpu_mib
// (0: unknown), because a wrong prediction must not refuse a task.
std::int64_t PromiseOf(const Answer& answer, double coverage, std::int64_t gpu_mib);

}  // namespace carma::estimate
