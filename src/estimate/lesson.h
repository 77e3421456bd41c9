// Derives an observation of a task's memory requirement when an attempt ends.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/time.h"
#include "core/values/gpu.h"
#include "core/values/ids.h"
#include "task/describe/spec.h"
#include "task/verdict/observation.h"

namespace carma::estimate {

// Shorter attempts are ignored, because a training run first loads data and libraries and reaches
// its peak in the first steps after that.
inline constexpr base::Duration kLeastWatched{60'000};

// Returns true if the attempt, which has just released its GPUs, shows how much memory its task
// needs. An attempt that succeeded or reached its time limit counts if its memory was observed long
// enough to include the peak. An attempt that ran out of memory also counts, because it needed more
// than it had.
bool Teaches(const core::TaskRecord& record, base::Duration watched);

struct RanOn {
  std::string gpu_type;  // type of the attempt's first GPU
  double pace = 1;       // speed of its slowest GPU relative to the server's fastest GPU
};
// its: the attempt's GPUs (at least one), in the attempt's order.
RanOn RanOnOf(std::span<const core::GpuIndex> its, std::span<const core::GpuInfo> gpus);

// Returns the observation from an attempt for which Teaches() is true, with its run time converted
// to what it would have been without neighbours. model, formula: from the task's Appraisal.
task::Observation LessonOf(const core::TaskRecord& record, const task::TaskSpec& spec,
                           const RanOn& where, const std::string& model,
                           const std::optional<task::FormulaSplit>& formula, base::Time now);

}  // namespace carma::estimate
