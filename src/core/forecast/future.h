// Cost of a start if all goes as predicted: simulates the policy until all tasks have ended. Pure;
// only for tasks with known run times.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/policy/policy.h"

namespace carma::core {

// A running task and its remaining work.
struct FutureRun {
  Neighbour load;
  double left_s = 0;  // of its run time alone
  // Its GPUs, as positions among the views, and its promise on each.
  std::vector<std::size_t> gpus;
  std::vector<std::int64_t> promised_mib;
};
// A waiting task.
struct FutureTask {
  Need need;
  double alone_s = 0;
};
// A possible start of a waiting task.
struct FutureStart {
  std::size_t task = 0;           // its index among the waiting tasks
  std::vector<std::size_t> gpus;  // indices of views
};

class Future {
 public:
  // Starts from the present state. All arguments must outlive it.
  Future(const PolicyConfig& config, const Mapper& mapper, std::span<const GpuView> views,
         std::span<const FutureRun> running, std::span<const FutureTask> line);

  // Seconds until the last task has ended plus half of the mean completion time; lower is better.
  // `first` starts now, followed by what the policy starts beside it; empty: nothing starts before
  // the next end. Infinite if some task would wait for ever.
  double CostOf(const std::optional<FutureStart>& first) const;

 private:
  const PolicyConfig& config_;
  const Mapper& mapper_;
  std::span<const GpuView> views_;
  std::span<const FutureRun> running_;
  std::span<const FutureTask> line_;
};

}  // namespace carma::core
