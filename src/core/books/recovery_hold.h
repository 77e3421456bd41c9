// GPUs kept free for one task that waits for recovery, or was passed for long. One task at a time:
// several could close the whole server to the main queue.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "core/policy/policy.h"

namespace carma::core {

class RecoveryHold {
 public:
  // Keeps as many GPUs as the task of `need` wants, those with most free memory: of the open ones
  // that it could ever use and that nobody has reserved. Keeps none where there are too few.
  void Keep(const PolicyConfig& config, const Need& need, std::span<const GpuView> views);
  void Drop() { task_.reset(); }

  // For whom GPUs are kept; empty: for nobody.
  std::optional<TaskId> task() const { return task_; }
  // Empty if none are kept.
  std::span<const GpuIndex> gpus() const {
    return task_ ? std::span<const GpuIndex>(gpus_) : std::span<const GpuIndex>();
  }
  // Asked of every GPU at every decision, and mostly there is nothing kept.
  bool Keeps(GpuIndex gpu) const { return task_ && std::ranges::find(gpus_, gpu) != gpus_.end(); }

 private:
  std::optional<TaskId> task_;
  std::vector<GpuIndex> gpus_;
};

}  // namespace carma::core
