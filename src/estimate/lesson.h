// What the end of an attempt teaches about its task's needs.
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

// A training program loads its data and its libraries first; its peak comes with the first steps.
inline constexpr base::Duration kLeastWatched{60'000};

// Whether the attempt that has just left its GPUs teaches anything: its memory was seen, and it ran
// to its end, watched for long enough to have reached its peak; or it ran out of memory, which
// teaches that so much was not enough.
bool Teaches(const core::TaskRecord& record, base::Duration watched);

// Where an attempt ran.
struct RanOn {
  std::string gpu_type;  // of its first GPU
  double pace = 1;       // of its slowest GPU, relative to the server's fastest
};
// its: one or more GPUs, its first one in front.
RanOn RanOnOf(std::span<const core::GpuIndex> its, std::span<const core::GpuInfo> gpus);

// The lesson of such an attempt; its run time as it would be there with GPUs to itself. model and
// formula: what was known of it when it was appraised (Appraisal).
task::Observation LessonOf(const core::TaskRecord& record, const task::TaskSpec& spec,
                           const RanOn& where, const std::string& model,
                           const std::optional<task::FormulaSplit>& formula, base::Time now);

}  // namespace carma::estimate
