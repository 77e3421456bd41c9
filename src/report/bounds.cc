#include "report/bounds.h"

#include <algorithm>
#include <functional>

namespace carma::report {

using base::Seconds;

namespace {

// The bounds that hold for every policy.
constexpr const char* kLongestTask = "longest task";
constexpr const char* kSmAreaShared = "SM activity area at 1.05";
constexpr const char* kMemoryArea = "memory area";

// From the last release to the first: the work that remains grows, the release falls. Tasks that
// are released together give their bound at the last of them that is passed, the highest.
double AreaBound(std::span<const BoundTask> by_release, double capacity,
                 const std::function<double(const BoundTask&)>& work) {
  double bound_s = 0, released_later = 0;
  for (std::size_t i = by_release.size(); i-- > 0;) {
    released_later += work(by_release[i]);
    bound_s = std::max(bound_s, Seconds(by_release[i].release) + released_later / capacity);
  }
  return bound_s;
}

}  // namespace

std::vector<Bound> MakespanBounds(std::span<const BoundTask> tasks, const BoundPool& pool) {
  if (tasks.empty() || pool.gpus <= 0) return {};
  std::vector<BoundTask> by_release(tasks.begin(), tasks.end());
  std::stable_sort(by_release.begin(), by_release.end(),
                   [](const BoundTask& a, const BoundTask& b) { return a.release < b.release; });
  double longest_s = 0;
  for (const BoundTask& task : by_release) {
    longest_s = std::max(longest_s, Seconds(task.release) + task.load_s + task.run_s);
  }
  const double gpus = pool.gpus;
  const auto sm_work = [](const BoundTask& task) { return task.sm_active * task.run_s; };
  std::vector<Bound> bounds{
      {kLongestTask, longest_s},
      {"exclusive area",
       AreaBound(by_release, gpus, [](const BoundTask& task) { return task.gpus * task.run_s; })},
      {"SM activity area", AreaBound(by_release, gpus, sm_work)},
      {kSmAreaShared, AreaBound(by_release, gpus * 1.05, sm_work)}};
  if (pool.usable_mib > 0) {
    bounds.push_back(
        {kMemoryArea, AreaBound(by_release, gpus * pool.usable_mib, [](const BoundTask& task) {
           return task.memory_mib * task.run_s;
         })});
  }
  return bounds;
}

double TightestBound(std::span<const Bound> bounds) {
  double highest_s = 0;
  for (const Bound& bound : bounds) {
    if (bound.name != kLongestTask && bound.name != kSmAreaShared && bound.name != kMemoryArea) {
      continue;
    }
    highest_s = std::max(highest_s, bound.makespan_s);
  }
  return highest_s;
}

}  // namespace carma::report
