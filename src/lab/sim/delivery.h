// How much a GPU can get done for tasks that may not be slowed down without limit. Pure functions
// of values.
#pragma once

#include <span>
#include <vector>

#include "core/values/task.h"
#include "lab/sim/models.h"

namespace carma::sim {

// For each load the most SM activity (sum of u_i * speed_i) that one GPU can deliver while such a
// task is on it and none there takes more than `limit` times as long as alone; neighbours may be
// any of the loads, each any number of times. At least the load's own, at most what the method of
// sharing ever delivers, which is the answer too where the search would take too long: a number
// that is too high makes a bound weaker, not wrong. limit: at least 1. sharing: kMps or kStreams.
std::vector<double> MostDelivered(const Interference& model, core::SharingMethod sharing,
                                  std::span<const Load> loads, double limit);

}  // namespace carma::sim
