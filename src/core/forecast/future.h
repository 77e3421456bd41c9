// Predicts the cost of a start by simulating the policy until all tasks have ended. Works only if
// the run times of all tasks are known. Pure.
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
  double left_s = 0;  // remaining part of its solo run time
  // Its GPUs, as indices into `views`, and the memory promised to it on each.
  std::vector<std::size_t> gpus;
  std::vector<std::int64_t> promised_mib;
};
// A waiting task and its solo run time.
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
  // The arguments describe the current state and must outlive this object.
  Future(const PolicyConfig& config, const Mapper& mapper, std::span<const GpuView> views,
         std::span<const FutureRun> running, std::span<const FutureTask> line);

  // The cost of starting `first` now, together with any tasks that the policy starts with it: the
  // seconds until the last task has ended, plus half of the mean completion time. Lower is better.
  // If `first` is empty, nothing starts before the next task ends. Infinite if some task would
  // never start.
  double CostOf(const std::optional<FutureStart>& first) const;

 private:
  const PolicyConfig& config_;
  const Mapper& mapper_;
  std::span<const GpuView> views_;
  std::span<const FutureRun> running_;
  std::span<const FutureTask> line_;
};

}  // namespace carma::core
