// Lower bounds on the makespan of a workload on a pool of identical GPUs, for any policy and
// collocation.
#pragma once

#include <span>
#include <vector>

#include "base/time.h"
#include "report/run.h"

namespace carma::report {

// What one task needs, regardless of where it is placed.
struct BoundTask {
  base::Duration release{};  // time from the first task's submission to its own
  double run_s = 0;          // execution time when alone on its GPUs
  double load_s = 0;         // loading time before execution, without GPU work
  int gpus = 1;
  double sm_active = 0;   // when alone, summed over its GPUs
  double memory_mib = 0;  // minimum while it runs, summed over its GPUs
  // For each of the task's GPUs: the task's SM activity, divided by the highest total SM activity
  // that the task and any neighbours can reach within the slowdown limit. Summed over these GPUs.
  double limited_share = 0;
};

struct BoundPool {
  int gpus = 0;
  double usable_mib = 0;  // of one GPU
  // Maximum slowdown of tasks; 0 for no limit.
  double slowdown_limit = 0;
};

// Returns these bounds, in this order:
//   "longest task"       the latest release + load + run: a task is never faster than alone
//   "exclusive area"     work = GPUs x run; valid only if every GPU runs one task at a time
//   "SM activity area"            work = sum of u x run at a capacity of 1 per GPU
//   "SM activity area at 1.05"    the same at the throughput measured with MPS
//   "memory area"        work = memory x run at the GPU's memory
//   "SM activity area, slowdown at most 2.5"  work = limited_share x run at a capacity of 1 per GPU
// An area bound is the maximum over all times s of
//   s + (work that cannot be done by time s) / (GPUs x capacity).
// It is valid because no task runs faster than alone, and none runs before it is released and
// loaded (docs/server/metrics.md). The memory bound needs usable_mib, and the last bound needs
// slowdown_limit. Empty if there are no tasks or no GPUs. Tasks can be in any order. O(n log n).
std::vector<Bound> MakespanBounds(std::span<const BoundTask> tasks, const BoundPool& pool);

// The highest of the bounds that hold for every policy and sharing method; 0 if there are none. The
// exclusive area, the SM activity area at capacity 1 and the bound with a slowdown limit do not
// hold for all of them.
double TightestBound(std::span<const Bound> bounds);

}  // namespace carma::report
