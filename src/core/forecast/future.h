// What a start comes to if all goes as predicted: the policy itself is played on, task by task,
// until everybody has ended. Pure; only for tasks whose run times are known.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/policy/policy.h"

namespace carma::core {

// A task that runs, with what it will still do.
struct FutureRun {
  Neighbour load;
  double left_s = 0;  // of its run time alone
  // Its GPUs by their places among the views, and what is promised to it there.
  std::vector<std::size_t> gpus;
  std::vector<std::int64_t> promised_mib;
};
// A task in line.
struct FutureTask {
  Need need;
  double alone_s = 0;
};
// The start of one of them.
struct FutureStart {
  std::size_t task = 0;           // its place among those in line
  std::vector<std::size_t> gpus;  // places among the views
};

class Future {
 public:
  // From now on. Everything outlives it.
  Future(const PolicyConfig& config, const Mapper& mapper, std::span<const GpuView> views,
         std::span<const FutureRun> running, std::span<const FutureTask> line);

  // Seconds until the last task has ended, and half of what they take in the mean: the lower the
  // better. `first` is started now, and then whatever the policy starts beside it; empty: nothing
  // is before the next task ends. Infinite where somebody would wait for ever.
  double CostOf(const std::optional<FutureStart>& first) const;

 private:
  const PolicyConfig& config_;
  const Mapper& mapper_;
  std::span<const GpuView> views_;
  std::span<const FutureRun> running_;
  std::span<const FutureTask> line_;
};

}  // namespace carma::core
