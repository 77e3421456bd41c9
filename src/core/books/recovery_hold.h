// GPUs kept free for one task that waits for recovery, or that others have passed for too long. One
// task at a time: several could close the whole server to the main queue.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "core/policy/policy.h"

namespace carma::core {

class RecoveryHold {
 public:
  // Keeps as many GPUs as `need` asks for: those with most free memory among the open, unreserved
  // ones that the task could ever use. False, and keeps none, if there are too few.
  bool Keep(const PolicyConfig& config, const Need& need, std::span<const GpuView> views);
  void Drop() { task_.reset(); }

  // The task that GPUs are kept for; empty: none.
  std::optional<TaskId> task() const { return task_; }
  // The kept GPUs; empty if none are kept.
  std::span<const GpuIndex> gpus() const {
    return task_ ? std::span<const GpuIndex>(gpus_) : std::span<const GpuIndex>();
  }
  // Inline, because every decision checks every GPU and usually none is kept.
  bool Keeps(GpuIndex gpu) const { return task_ && std::ranges::find(gpus_, gpu) != gpus_.end(); }

 private:
  std::optional<TaskId> task_;
  std::vector<GpuIndex> gpus_;
};

}  // namespace carma::core
