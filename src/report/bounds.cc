#include "report/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace carma::report {

using base::Seconds;

namespace {

// Names of the bounds that are valid for every policy.
constexpr const char* kLongestTask = "longest task";
constexpr const char* kSmAreaShared = "SM activity area at 1.05";
constexpr const char* kMemoryArea = "memory area";

// A time at which the total work per second changes, because a task begins or ends. The bound
// assumes that every task runs at full speed as soon as it is loaded.
struct Turn {
  double at_s = 0;
  double change = 0;
};

// The bound is linear between two such times, so it reaches its maximum at one of them.
double AreaBound(std::span<const BoundTask> tasks, double capacity,
                 const std::function<double(const BoundTask&)>& work_per_s) {
  std::vector<Turn> turns;
  turns.reserve(2 * tasks.size());
  double left = 0;
  for (const BoundTask& task : tasks) {
    const double begins_s = Seconds(task.release) + task.load_s;
    const double each = work_per_s(task);
    turns.push_back({begins_s, each});
    turns.push_back({begins_s + task.run_s, -each});
    left += each * task.run_s;
  }
  std::ranges::sort(turns, [](const Turn& a, const Turn& b) { return a.at_s < b.at_s; });
  double bound_s = left / capacity, from_s = 0, rate = 0;
  for (const Turn& turn : turns) {
    left -= rate * (turn.at_s - from_s);
    from_s = turn.at_s;
    rate += turn.change;
    bound_s = std::max(bound_s, from_s + std::max(0.0, left) / capacity);
  }
  return bound_s;
}

}  // namespace

std::vector<Bound> MakespanBounds(std::span<const BoundTask> tasks, const BoundPool& pool) {
  if (tasks.empty() || pool.gpus <= 0) return {};
  double longest_s = 0;
  for (const BoundTask& task : tasks)
    longest_s = std::max(longest_s, Seconds(task.release) + task.load_s + task.run_s);
  const double gpus = pool.gpus;
  const auto sm_active = [](const BoundTask& task) { return task.sm_active; };
  std::vector<Bound> bounds{{kLongestTask, longest_s},
                            {"exclusive area", AreaBound(tasks, gpus,
                                                         [](const BoundTask& task) {
                                                           return static_cast<double>(task.gpus);
                                                         })},
                            {"SM activity area", AreaBound(tasks, gpus, sm_active)},
                            {kSmAreaShared, AreaBound(tasks, gpus * 1.05, sm_active)}};
  if (pool.usable_mib > 0) {
    bounds.push_back(
        {kMemoryArea, AreaBound(tasks, gpus * pool.usable_mib,
                                [](const BoundTask& task) { return task.memory_mib; })});
  }
  if (pool.slowdown_limit > 0) {
    bounds.push_back(
        {fmt::format("SM activity area, slowdown at most {:.4g}", pool.slowdown_limit),
         AreaBound(tasks, gpus, [](const BoundTask& task) { return task.limited_share; })});
  }
  return bounds;
}

double TightestBound(std::span<const Bound> bounds) {
  double highest_s = 0;
  for (const Bound& bound : bounds) {
    if (bound.name != kLongestTask && bound.name != kSmAreaShared && bound.name != kMemoryArea)
      continue;
    highest_s = std::max(highest_s, bound.makespan_s);
  }
  return highest_s;
}

}  // namespace carma::report
