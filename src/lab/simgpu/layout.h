// The layout of a state file, only for state_lock.h.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "base/server_clock.h"
#include "lab/simgpu/world.h"

namespace carma::simgpu {

inline constexpr int kMaxFaults = 256;

struct FaultEntry {
  std::uint32_t kind;  // FaultKind
  std::int32_t gpu;    // the place: kStale is also stored for instances that were not named
  std::int32_t code;
  char function[64];
  // For kStale: the frozen readings.
  double now_s;
  std::int64_t used_mib;
  double sm_active;
  double power_w;
  Totals totals;
};

struct StateFile {
  base::ServerHead head;  // its version changes whenever the layout does
  pthread_mutex_t lock;   // robust: guards everything below but the atomics
  std::atomic<std::uint32_t>
      generation;  // of the world: changes whenever a pace may have changed; a futex
  std::atomic<std::uint32_t> fault_count;
  FaultEntry faults[kMaxFaults];
  // Mutexes that joined threads hold as long as they live: the kernel marks them when the process
  // dies.
  pthread_mutex_t lives[kMaxResidents];
  World world;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace carma::simgpu
