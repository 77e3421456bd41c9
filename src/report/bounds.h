// How far could any policy go? Lower bounds on the makespan of a load on one pool of equal GPUs,
// whatever is collocated with what, without preemption of what has not come yet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "report/run.h"

namespace carma::report {

// What one task must have, however it is placed.
struct BoundTask {
  base::Duration release{};  // its submission, since the first one
  double run_s = 0;          // execution alone on its GPUs
  double load_s = 0;         // of loading before that: only the longest task feels it
  int gpus = 1;
  double sm_active = 0;   // alone, summed over its GPUs
  double memory_mib = 0;  // peak, summed over its GPUs
};

struct BoundPool {
  int gpus = 0;
  double usable_mib = 0;  // of one GPU
};

// In order:
//   "longest task"       the latest release + load + run: a task is never faster than alone
//   "exclusive area"     work = GPUs x run; holds only where every GPU runs one task at a time
//   "SM activity area"            work = sum of u x run at a capacity of 1 per GPU
//   "SM activity area at 1.05"    the same at the throughput that MPS was measured to reach
//   "memory area"        work = memory x run at the GPU's memory
// An area bound is the highest, over all releases r, of r + (work released at r or later) / (GPUs x
// capacity); docs/metrics.md. None for no tasks or no GPUs, no
// memory bound where usable_mib is 0. O(n log n); tasks in any order.
std::vector<Bound> MakespanBounds(std::span<const BoundTask> tasks, const BoundPool& pool);

// What no policy beats: the highest of the bounds that hold however tasks share GPUs, so neither
// the exclusive area nor the SM activity area below the measured throughput. 0: there is none.
double TightestBound(std::span<const Bound> bounds);

}  // namespace carma::report
