// Serves the main queue with mappers that choose task and GPUs together: the best start comes
// first.
#pragma once

#include "core/scheduler/line.h"

namespace carma::core {

// opened: the GPUs that may take one of `unplaceable`.
void StartBestFirst(State& state, std::vector<GpuView>& views, const std::vector<bool>& opened,
                    PassLine& pass);

}  // namespace carma::core
