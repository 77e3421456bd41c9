// Keeps GPUs free for a task that is waiting for recovery or has been overtaken by other tasks for
// too long. Only one task has a hold at a time, because several holds could close the whole server
// to the main queue.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "core/policy/gpu_links.h"
#include "core/policy/policy.h"

namespace carma::core {

// True if foreign processes would keep the task off the GPU even if no task were there.
bool BlockedByForeign(const PolicyConfig& config, const Need& need, const GpuView& gpu);

class RecoveryHold {
 public:
  // Sets aside as many GPUs as the task needs. Chooses those with the most free memory among the
  // open, unreserved GPUs that would take the task if they were empty, and only linked ones if the
  // task requires them. GPUs blocked by foreign processes come last. If there are too few GPUs,
  // sets aside none and returns false.
  bool Keep(const PolicyConfig& config, const GpuLinks& links, const Need& need,
            std::span<const GpuView> views);
  void Drop() { task_.reset(); }

  // The task for which GPUs are kept free, if any.
  std::optional<TaskId> task() const { return task_; }
  // The GPUs that are kept free; empty if there are none.
  std::span<const GpuIndex> gpus() const {
    return task_ ? std::span<const GpuIndex>(gpus_) : std::span<const GpuIndex>();
  }
  // Inline, because every decision calls it for every GPU, and usually no GPU is kept.
  bool Keeps(GpuIndex gpu) const { return task_ && std::ranges::find(gpus_, gpu) != gpus_.end(); }

 private:
  std::optional<TaskId> task_;
  std::vector<GpuIndex> gpus_;
};

}  // namespace carma::core
