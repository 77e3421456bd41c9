// The mapped file of a simulated GPU server. Private to the parts of Server: state.cc,
// state_faults.cc.
#pragma once

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/server_clock.h"
#include "base/unique_fd.h"
#include "lab/simgpu/state.h"
#include "lab/simgpu/world.h"

namespace carma::simgpu {

inline constexpr int kMaxFaults = 256;

struct FaultEntry {
  std::uint32_t kind;  // FaultKind
  std::int32_t gpu;    // place number; kStale is also stored for the instances of the GPU
  std::int32_t code;
  char function[64];
  Readings frozen;  // by kStale
};

struct StateFile {
  base::ServerHead head;  // its version changes whenever the layout changes
  pthread_mutex_t lock;   // robust; guards everything below except the atomics
  std::atomic<std::uint32_t>
      generation;  // a futex that changes whenever a pace in the world may have changed
  std::atomic<std::uint32_t> fault_count;
  FaultEntry faults[kMaxFaults];
  // Each resident holds one of these mutexes; the kernel marks it when the resident's thread dies.
  pthread_mutex_t lives[kMaxResidents];
  World world;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// Reads text from the file. Another process may have left the text without its final NUL.
template <std::size_t N>
std::string Text(const char (&bytes)[N]) {
  return std::string(bytes, strnlen(bytes, N));
}

struct Server::Mapping {
  base::UniqueFd fd;
  std::string path;
  StateFile* state = nullptr;
  std::atomic<std::int64_t> checked_ns{0};  // time at which the file was last found to be complete
  ~Mapping() {
    if (state) ::munmap(state, sizeof(StateFile));
  }
};

}  // namespace carma::simgpu
