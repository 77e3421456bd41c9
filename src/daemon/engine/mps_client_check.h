// Finds processes that compute without their task's MPS server. A process with another or no pipe
// directory in its environment still runs on the GPU, but without its task's limits and in turns
// with its neighbours, and gets no error. Pure.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/values/ids.h"

namespace carma::daemon {

// Checks the clients of one server.
class MpsClientCheck {
 public:
  using Key = std::pair<core::TaskId, int>;  // a task and its attempt
  using Processes = std::map<Key, std::set<pid_t>>;

  // Records the processes of an attempt that the driver now lists on its GPUs.
  void Seen(const Key& who, const std::vector<pid_t>& pids);
  void Forget(const Key& who);
  // The processes seen last. Pass them to Compare() with a list of clients that is made afterwards.
  const Processes& seen() const { return seen_; }
  // clients: the server's clients, listed after `before` was seen. A process that is missing from
  // two successive lists and still runs bypasses the server. Returns the newly found processes.
  Processes Compare(const Processes& before, const std::vector<pid_t>& clients);
  const Processes& outside() const { return outside_; }

 private:
  Processes seen_, missed_, outside_;
};

}  // namespace carma::daemon
