// How much GPU memory a task holds at any moment of an attempt. Pure functions of values.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace carma::sim {

// Defaults as seen in the two measured A100 runs behind docs/inside/simulator.md: nothing for about
// 14 s (imports, CUDA context, first batch), then the plateau at once and until the end; the line
// that tells of a failed allocation shows about 8 s later, when the process ends. A newcomer that
// does not fit crashes; residents never suffer, because they hold what they need. With the options
// below it is always the one that allocates on a full GPU that crashes: the newcomer, or who grows.
struct MemoryModel {
  base::Duration load{14'000};        // launch to first allocation
  base::Duration crash_delay{8'000};  // failed allocation to the end of the process
  // Option: the first allocation is only this share of the plateau; the rest follows in equal steps
  // over `ramp`, each of which can fail (a late crash, after work was done).
  double first_share = 1.0;
  base::Duration ramp{0};
  // Option: afterwards it grows by this share of the plateau an hour (caches, leaks), in steps.
  double growth_per_hour = 0;
  // Option: for a moment it holds this share of the plateau more (an evaluation, a search for
  // algorithms), `spike_every` after the ramp and again and again; each can fail.
  double spike_share = 0;
  base::Duration spike_every{3'600'000};
  base::Duration spike_lasts{30'000};
  // Option: memory that no one can use for each task beyond the first on a GPU (fragments, one more
  // context without MPS).
  std::int64_t fragmentation_mib = 0;
};

// What a task with this plateau holds `since` its first allocation.
std::int64_t HeldMib(const MemoryModel& model, std::int64_t plateau_mib, base::Duration since);
// When it will hold more or less, counted from its first allocation; empty: never.
std::optional<base::Duration> NextStep(const MemoryModel& model, base::Duration since);
// What `tasks` tasks together can use of a GPU.
std::int64_t AllocatableMib(const MemoryModel& model, std::int64_t usable_mib, int tasks);

}  // namespace carma::sim
