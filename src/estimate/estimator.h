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

// Optimizers by the number of state tensors that they keep per parameter.
enum class Optimizer { kSgd, kMomentum, kAdam };  // 0, 1 and 2 state tensors
// Parses "sgd", "sgd-momentum", "momentum", "adam", "adamw" and similar names in upper or lower
// case; empty for an unknown name.
std::optional<Optimizer> ParseOptimizer(std::string_view name);

enum class Precision { kFp32, kMixed, kHalf };  // kMixed: fp32 weights, 16-bit activations (amp)
// Parses "fp32", "tf32", "amp", "amp-fp16", "amp-bf16", "fp16" or "bf16"; empty for other names.
std::optional<Precision> ParsePrecision(std::string_view name);

struct Site;    // calibration.h: what was learned from finished tasks
class History;  // history.h: measured peaks of earlier runs

// Everything that is known about a task before it runs. The pointers are borrowed for one call.
struct Question {
  const model::LayerList* layers = nullptr;  // null: no readable summary
  // Set if the task has a config.json instead of a summary. `plan` holds the training settings.
  const TransformerConfig* transformer = nullptr;
  std::optional<TrainingPlan> plan;
  std::vector<std::string> assumed;    // assumptions of the plan, one sentence each
  bool assumes_length = false;         // `assumed` has a sentence about the sample length
  std::string summary_trouble;         // why the named summary cannot be used
  std::optional<std::int64_t> batch;   // samples per GPU and step
  std::optional<Optimizer> optimizer;  // empty: unknown; the estimator states its assumption
  std::optional<Precision> precision;
  int gpus = 1;
  std::string gpu_type;                   // "A100-40GB"; empty: unknown
  std::int64_t gpu_mib = 0;               // usable memory of the largest GPU; 0: unknown
  std::optional<std::int64_t> given_mib;  // stated by the user
  std::string given_source = "given";     // "given", "rad" …
  double share = 0;  // share of the GPU's memory that an inference engine reserves; 0: no engine
  std::string signature;       // signature.h; empty: unknown
  std::string kin;             // the same for all runs of one program by one user; empty: unknown
  std::string relation;        // the same for runs that differ only in amounts; empty: unknown
  Amounts amounts;             // from the task's description and command
  double coverage = 0.95;      // share of runs that the bound should cover, 0.5..0.999
  const Site* site = nullptr;  // null: the shipped constants are used
  const History* history = nullptr;
};

// Name of the term for the memory that a process uses before it allocates its first tensor. The
// site's calibration shifts this term.
inline constexpr std::string_view kContextTerm = "context";

// Name of the term for memory that PyTorch's allocator reserves beyond its tensors.
inline constexpr std::string_view kFragmentationTerm = "fragmentation";

// One part of a prediction, for `carma estimate --explain`.
struct Term {
  std::string name;  // kContextTerm, "parameters and optimizer", "kept for backward" …
  double mib = 0;
};
double SumOf(std::span<const Term> terms);  // MiB
// Rounds a computed size to whole MiB. Out-of-range sizes give a meaningless result, but never
// undefined behaviour.
std::int64_t RoundMib(double mib);

// A class predicted by a classifier. Class `index` contains runs that need at least index *
// width_mib and less than (index + 1) * width_mib.
struct MemoryClass {
  std::int64_t width_mib = 0;
  int index = 0;
  friend bool operator==(const MemoryClass&, const MemoryClass&) = default;
};

struct Answer {
  std::int64_t point_mib = 0;  // most likely peak per GPU, CUDA context included
  std::int64_t bound_mib = 0;  // covers the share `coverage` of runs; at least point_mib
  // The part of point_mib that PyTorch allocates for tensors; the rest is the CUDA context and the
  // allocator's cache. Empty if the method does not separate the two.
  std::optional<std::int64_t> needed_mib;
  double coverage = 0;                // share of runs covered by the bound; 0: unknown
  std::string method;                 // "structural", "gpumemnet-mlp" …
  std::vector<Term> terms;            // may be empty; otherwise their sum is the point
  std::vector<MemoryClass> classes;   // most probable one of each width, finest first; may be empty
  std::vector<std::string> warnings;  // one sentence each: assumed optimizer, collapsed summary …
};

class Estimator {
 public:
  virtual ~Estimator() = default;
  // Returns kNotFound, with the reason as a sentence, if this method has no answer for the task.
  // Pure, thread-safe, and without I/O.
  virtual Result<Answer> Ask(const Question& question) const = 0;
};

// Returns the memory requirement stated by the user or the task file, unchanged.
std::unique_ptr<Estimator> MakeGiven();
// The formula of the Horus scheduler (dissertation, section 5.3.1).
std::unique_ptr<Estimator> MakeHorus();
// Parameters plus the tensors kept for the backward pass.
std::unique_ptr<Estimator> MakeFakeTensor();
// The structural formula of docs/inside/estimators.md.
std::unique_ptr<Estimator> MakeStructural();
// The closed form for transformers described by a config.json (estimate/transformer/peak.h).
std::unique_ptr<Estimator> MakeTransformer();
// GPUMemNet with the shipped weights (data/estimators).
std::unique_ptr<Estimator> MakeGpuMemNetMlp();
std::unique_ptr<Estimator> MakeGpuMemNetTransformer();
// Measured peaks of earlier runs of the same training job.
std::unique_ptr<Estimator> MakeFromHistory();
// Tries these methods in order and uses the first that has an answer:
// - history
// - runs of the same training job with other batch sizes or sample lengths
// - the closed form for a task with a config.json, the reserved share for an inference engine, or
//   the structural formula for any other task
// - this user's runs of the same program with other settings
// Returns kNotFound if no method has an answer.
std::unique_ptr<Estimator> MakeAuto();

struct EstimatorEntry {
  std::string_view name;
  std::string_view description;
  std::unique_ptr<Estimator> (*make)();
};
// All estimators; "auto" is the first.
std::span<const EstimatorEntry> Estimators();
const EstimatorEntry* FindEstimator(std::string_view name);
// The estimators in a comma-separated list; "" and "all" mean all. Returns kInvalid if a name is
// unknown.
Result<std::vector<const EstimatorEntry*>> ChosenEstimators(std::string_view names);

}  // namespace carma::estimate
