// Serves the main queue for mappers that choose the task and its GPUs together: the best start
// comes first.
#pragma once

#include "core/scheduler/line.h"

namespace carma::core {

// opened: for each GPU, whether it might now take one of the tasks in Passes::unplaceable.
void StartBestFirst(State& state, std::vector<GpuView>& views, const std::vector<bool>& opened,
                    PassLine& pass);

}  // namespace carma::core
