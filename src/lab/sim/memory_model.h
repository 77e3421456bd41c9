// A task's GPU memory at any moment of an attempt. Pure functions of values.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace carma::sim {

// The defaults follow the two measured A100 runs of docs/inside/simulator.md. A task holds nothing
// for about 14 s (imports, CUDA context, first batch), then its full plateau until the end. It
// reports a failed allocation about 8 s later, when its process ends. A new task that does not fit
// crashes; the residents are not affected because they already hold what they need. With the
// options below, the task that allocates on a full GPU crashes, whether it is new or growing.
struct MemoryModel {
  base::Duration load{14'000};        // launch to first allocation
  base::Duration crash_delay{8'000};  // failed allocation to end of the process
  // Option: the first allocation takes only this share of the plateau. The rest follows in equal
  // steps over `ramp`. Each step can fail, which is a late crash that loses work.
  double first_share = 1.0;
  base::Duration ramp{0};
  // Option: after the ramp the memory grows in steps by this share of the plateau per hour (caches,
  // leaks).
  double growth_per_hour = 0;
  // Option: after the ramp, the task briefly holds this additional share of the plateau once per
  // `spike_every` (an evaluation, a search for algorithms). Each spike can fail.
  double spike_share = 0;
  base::Duration spike_every{3'600'000};
  base::Duration spike_lasts{30'000};
  // Option: unusable memory for each task beyond the first on a GPU (fragments, one more context
  // without MPS).
  std::int64_t fragmentation_mib = 0;
};

// Memory of a task with this plateau at time `since` after its first allocation.
std::int64_t HeldMib(const MemoryModel& model, std::int64_t plateau_mib, base::Duration since);
// The next change of the task's memory, counted from its first allocation; empty if there is none.
std::optional<base::Duration> NextStep(const MemoryModel& model, base::Duration since);
// GPU memory that this many tasks together can use.
std::int64_t AllocatableMib(const MemoryModel& model, std::int64_t usable_mib, int tasks);

}  // namespace carma::sim
