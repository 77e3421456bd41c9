// Predicts the peak GPU memory of a task that has not run yet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "estimate/signature.h"
#include "estimate/training_plan.h"
#include "estimate/transformer_config.h"
#include "model/layers.h"

namespace carma::estimate {

// State tensors per parameter that an optimizer keeps.
enum class Optimizer { kSgd, kMomentum, kAdam };  // 0, 1, 2 per parameter
// Parses "sgd", "sgd-momentum", "momentum", "adam", "adamw" and similar names in upper or lower
// case; empty for an unknown name.
std::optional<Optimizer> ParseOptimizer(std::string_view name);

enum class Precision { kFp32, kMixed, kHalf };  // kMixed: fp32 weights, 16-bit activations (amp)
// Parses "fp32", "tf32", "amp", "amp-fp16", "amp-bf16", "fp16" or "bf16"; empty for other names.
std::optional<Precision> ParsePrecision(std::string_view name);

struct Site;    // calibration.h: what finished tasks have shown about this server
class History;  // history.h: measured peaks of earlier runs

// Everything known before the run. Borrowed for one call.
struct Question {
  const model::LayerList* layers = nullptr;  // null: no readable summary
  // A config.json in place of a summary (null: none), and how its model is trained.
  const TransformerConfig* transformer = nullptr;
  std::optional<TrainingPlan> plan;
  std::vector<std::string> assumed;    // assumptions of the plan, one sentence each
  bool assumes_length = false;         // one of them is about the length of samples
  std::string summary_trouble;         // why there is no summary although one was named
  std::optional<std::int64_t> batch;   // samples per GPU and step
  std::optional<Optimizer> optimizer;  // empty: unknown; the estimator states its assumption
  std::optional<Precision> precision;
  int gpus = 1;
  std::string gpu_type;                   // "A100-40GB"; empty: not known
  std::int64_t gpu_mib = 0;               // usable memory of the largest GPU; 0: not known
  std::optional<std::int64_t> given_mib;  // stated by the user
  std::string given_source = "given";     // "given", "rad" …
  std::string signature;                  // signature.h; empty: unknown
  std::string kin;             // equal for the same program of the same user; empty: unknown
  std::string relation;        // equal for the same training with other amounts; empty: unknown
  Amounts amounts;             // from the task's description and command
  double coverage = 0.95;      // share of runs that the bound should cover, 0.5..0.999
  const Site* site = nullptr;  // null: the shipped constants are used
  const History* history = nullptr;
};

// Name of the term that the site's calibration shifts: the memory of a process before any tensor.
inline constexpr std::string_view kContextTerm = "context";

// Name of the term for memory that PyTorch's allocator holds beyond its tensors.
inline constexpr std::string_view kFragmentationTerm = "fragmentation";

// One part of a prediction, for `carma estimate --explain`.
struct Term {
  std::string name;  // kContextTerm, "parameters and optimizer", "kept for backward" …
  double mib = 0;
};

// A class predicted by a classifier: measured memory within [index * width_mib, (index + 1) *
// width_mib).
struct MemoryClass {
  std::int64_t width_mib = 0;
  int index = 0;
  friend bool operator==(const MemoryClass&, const MemoryClass&) = default;
};

struct Answer {
  std::int64_t point_mib = 0;  // most likely peak per GPU, CUDA context included
  std::int64_t bound_mib = 0;  // covers `coverage` of the runs; at least the point
  // The part of the point that PyTorch uses for tensors; the rest is context and the allocator's
  // cache. Empty if the method does not separate them.
  std::optional<std::int64_t> needed_mib;
  double coverage = 0;      // of the bound; 0: the method has no coverage
  std::string method;       // "structural", "gpumemnet-mlp" …
  std::vector<Term> terms;  // may be empty; otherwise their sum is the point
  std::vector<MemoryClass>
      classes;  // most probable class of each width, finest first; classifiers only
  std::vector<std::string> warnings;  // one sentence each: assumed optimizer, collapsed summary …
};

class Estimator {
 public:
  virtual ~Estimator() = default;
  // Errors: kNotFound with the reason as a sentence if this method has no answer for the task. Pure
  // and safe to call from several threads; no I/O.
  virtual Result<Answer> Ask(const Question& question) const = 0;
};

// The figure from the user or the task file, unchanged.
std::unique_ptr<Estimator> MakeGiven();
// Formula of the dissertation, section 5.3.1.
std::unique_ptr<Estimator> MakeHorus();
// Parameters plus tensors kept for backward.
std::unique_ptr<Estimator> MakeFakeTensor();
// The structural formula of docs/inside/estimators.md.
std::unique_ptr<Estimator> MakeStructural();
// The closed form for transformers (estimate/transformer/peak.h), from a config.json.
std::unique_ptr<Estimator> MakeTransformer();
// GPUMemNet with its shipped weights (data/estimators).
std::unique_ptr<Estimator> MakeGpuMemNetMlp();
std::unique_ptr<Estimator> MakeGpuMemNetTransformer();
// Measured peaks of earlier runs of the same training.
std::unique_ptr<Estimator> MakeFromHistory();
// Uses the first method that has an answer: history; runs of the same training with other amounts;
// the closed form if a config.json is named; the structural formula with the best available
// information; this user's runs of the same program with other settings. kNotFound if no method has
// one.
std::unique_ptr<Estimator> MakeAuto();

struct EstimatorEntry {
  std::string_view name;
  std::string_view description;
  std::unique_ptr<Estimator> (*make)();
};
// All estimators, "auto" first.
std::span<const EstimatorEntry> Estimators();
const EstimatorEntry* FindEstimator(std::string_view name);

}  // namespace carma::estimate
