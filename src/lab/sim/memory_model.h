// A task's GPU memory at any moment of an attempt. Pure functions of values.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace carma::sim {

// Defaults as in the two measured A100 runs of docs/inside/simulator.md: nothing for about 14 s
// (imports, CUDA context, first batch), then the plateau at once until the end; a failed allocation
// is printed about 8 s later, when the process ends. A new task that does not fit crashes;
// residents are not affected, because they hold what they need. With the options below the task
// that allocates on a full GPU crashes, whether it is new or grows.
struct MemoryModel {
  base::Duration load{14'000};        // launch to first allocation
  base::Duration crash_delay{8'000};  // failed allocation to the end of the process
  // Option: the first allocation is only this share of the plateau; the rest follows in equal steps
  // over `ramp`, each of which can fail (a late crash, after work was done).
  double first_share = 1.0;
  base::Duration ramp{0};
  // Option: after the ramp the memory grows in steps, by this share of the plateau per hour
  // (caches, leaks).
  double growth_per_hour = 0;
  // Option: every `spike_every` after the ramp the task briefly holds this additional share of the
  // plateau (an evaluation, a search for algorithms); each spike can fail.
  double spike_share = 0;
  base::Duration spike_every{3'600'000};
  base::Duration spike_lasts{30'000};
  // Option: unusable memory for each task beyond the first on a GPU (fragments, one more context
  // without MPS).
  std::int64_t fragmentation_mib = 0;
};

// Memory of a task with this plateau at time `since` after its first allocation.
std::int64_t HeldMib(const MemoryModel& model, std::int64_t plateau_mib, base::Duration since);
// The next change of its memory, counted from its first allocation; empty: none.
std::optional<base::Duration> NextStep(const MemoryModel& model, base::Duration since);
// Memory of a GPU that this many tasks can use together.
std::int64_t AllocatableMib(const MemoryModel& model, std::int64_t usable_mib, int tasks);

}  // namespace carma::sim
