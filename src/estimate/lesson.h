// Derives an observation of a task's needs from the end of an attempt.
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

// Least time to watch an attempt: a training first loads data and libraries, and reaches its peak
// in the first steps.
inline constexpr base::Duration kLeastWatched{60'000};

// Whether the attempt that has just left its GPUs shows its need: its memory was observed, it ran
// to its end, and it was watched for long enough to have reached its peak; or it ran out of memory,
// so what it had was not enough.
bool Teaches(const core::TaskRecord& record, base::Duration watched);

// Where an attempt ran.
struct RanOn {
  std::string gpu_type;  // of its first GPU
  double pace = 1;       // speed of its slowest GPU relative to the server's fastest
};
// its: the GPUs of the attempt, at least one, in the attempt's order.
RanOn RanOnOf(std::span<const core::GpuIndex> its, std::span<const core::GpuInfo> gpus);

// The observation of an attempt for which Teaches() is true. Its run time is converted to what it
// would be without neighbours. model, formula: from the task's Appraisal.
task::Observation LessonOf(const core::TaskRecord& record, const task::TaskSpec& spec,
                           const RanOn& where, const std::string& model,
                           const std::optional<task::FormulaSplit>& formula, base::Time now);

}  // namespace carma::estimate
