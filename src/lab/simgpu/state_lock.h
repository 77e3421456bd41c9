// The mapped file of a simulated GPU server and the lock on it; private to the parts of Server:
// state.cc, state_faults.cc.
#pragma once

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"
#include "lab/simgpu/layout.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

// Text in the file, which another process may have left without its closing NUL.
template <std::size_t N>
std::string Text(const char (&bytes)[N]) {
  return std::string(bytes, strnlen(bytes, N));
}

struct Server::Mapping {
  base::UniqueFd fd;
  std::string path;
  StateFile* state = nullptr;
  std::atomic<std::int64_t> checked_ns{0};  // when the file was last found whole
  ~Mapping() {
    if (state) ::munmap(state, sizeof(StateFile));
  }
};

// Holds the server's mutex. Meanwhile the world is up to date and without dead residents.
class Server::Lock {
 public:
  static base::Result<Lock> Take(Server& server);
  Lock(Lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
  ~Lock() {
    if (mutex_) ::pthread_mutex_unlock(mutex_);
  }

 private:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(&mutex) {}
  pthread_mutex_t* mutex_;
};

}  // namespace carma::simgpu
