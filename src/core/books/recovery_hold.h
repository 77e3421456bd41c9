// Keeps GPUs free for a task that waits for recovery, or that others have passed for too long. It
// serves only one task at a time, because several could close the whole server to the main queue.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "core/policy/policy.h"

namespace carma::core {

class RecoveryHold {
 public:
  // Keeps as many GPUs as the task needs: those with the most free memory among the open,
  // unreserved GPUs that could ever take it. If there are too few, keeps none and returns false.
  bool Keep(const PolicyConfig& config, const Need& need, std::span<const GpuView> views);
  void Drop() { task_.reset(); }

  // The task for which GPUs are kept; empty: none.
  std::optional<TaskId> task() const { return task_; }
  // The kept GPUs; empty if none are kept.
  std::span<const GpuIndex> gpus() const {
    return task_ ? std::span<const GpuIndex>(gpus_) : std::span<const GpuIndex>();
  }
  // Inline, because every decision calls this for every GPU, and usually no GPU is kept.
  bool Keeps(GpuIndex gpu) const { return task_ && std::ranges::find(gpus_, gpu) != gpus_.end(); }

 private:
  std::optional<TaskId> task_;
  std::vector<GpuIndex> gpus_;
};

}  // namespace carma::core
