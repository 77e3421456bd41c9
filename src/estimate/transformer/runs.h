// Reads tables of measured transformer training runs, for evaluation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/words.h"
#include "estimate/training_plan.h"
#include "estimate/transformer_config.h"

namespace carma::estimate {

// The kind of memory that a source reports.
enum class MemoryKind {
  kAllocated,  // PyTorch's max_memory_allocated
  kReserved,   // max_memory_reserved
  kShown,      // nvidia-smi, NVML
  kUnstated    // not stated: treated as kShown, and reported separately
};
inline constexpr std::pair<MemoryKind, std::string_view> kMemoryKindWords[] = {
    {MemoryKind::kAllocated, "allocated"},
    {MemoryKind::kReserved, "reserved"},
    {MemoryKind::kShown, "shown"},
    {MemoryKind::kUnstated, "unstated"}};

struct MeasuredMemory {
  MemoryKind kind = MemoryKind::kShown;
  std::int64_t mib = 0;  // per GPU
};

struct TrainingRun {
  std::string id, source, model, family, method, quantisation, parallel;
  std::int64_t gpus = 1;
  Result<TrainingPlan> plan = TrainingPlan{};  // an error states why the row is insufficient
  std::size_t config = 0;                      // index into TrainingRuns::configs
  std::vector<MeasuredMemory> measured;        // at least one
};

struct TrainingRuns {
  std::vector<TransformerConfig> configs;
  std::vector<TrainingRun> runs;
  std::size_t without_model = 0;      // rows whose model is not in the model table
  std::vector<std::string> troubles;  // location and reason for each row with an unreadable cell
};

// runs, models: at least one file each. `models` contains the sizes of the runs' models.
// docs/inside/estimators.md, "Tables of runs", describes the columns. Runs with an unreadable cell
// are not estimated, only listed in `troubles`. Returns the errors of base::ReadFile, or kInvalid
// if a model table is malformed (with file and line) or no row has a model.
Result<TrainingRuns> ReadTrainingRuns(const std::vector<std::string>& runs,
                                      const std::vector<std::string>& models);

// The value of `field` for --by: source, family, model, method, quantisation, parallel or gpus.
// Returns kInvalid for any other field.
Result<std::string> FieldOf(const TrainingRun& run, std::string_view field);

}  // namespace carma::estimate

namespace carma {
template <>
inline constexpr base::Words<estimate::MemoryKind> base::kWordsOf<estimate::MemoryKind> =
    estimate::kMemoryKindWords;
}  // namespace carma
