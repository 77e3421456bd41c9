// The bytes of a state file, for state.cc alone.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "simgpu/world.h"

namespace carma::simgpu {

inline constexpr char kMagic[8] = {'C', 'A', 'R', 'M', 'A', 'G', 'P', 'U'};
inline constexpr std::uint32_t kLayoutVersion = 3;
inline constexpr int kMaxFaults = 256;

struct FaultEntry {
  std::uint32_t kind;  // FaultKind
  std::int32_t gpu;    // the place: kStale is kept for instances too, of which nobody asked
  std::int32_t code;
  char function[64];
  // kStale: what is answered for ever.
  double now_s;
  std::int64_t used_mib;
  double sm_active;
  double power_w;
  Totals totals;
};

struct StateFile {
  char magic[8];
  std::uint32_t version;
  std::uint32_t bytes;  // sizeof(StateFile): another build with other tables is refused
  // Mutexes of dead owners and the clock mean nothing after a reboot.
  char boot_id[40];
  double time_scale;
  std::int64_t origin_time_ms;
  std::int64_t origin_boot_ns;
  pthread_mutex_t lock;  // robust: guards everything below but the atomics
  std::atomic<std::uint32_t>
      generation;  // of the world: changes when anybody's pace may have; a futex
  std::atomic<std::uint32_t> fault_count;
  FaultEntry faults[kMaxFaults];
  // Held by the thread that joined, as long as it lives: the kernel marks it when the process dies.
  pthread_mutex_t lives[kMaxResidents];
  World world;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace carma::simgpu
