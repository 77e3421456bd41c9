// Finds processes that use a GPU without going through their task's MPS server. A process whose
// environment has no pipe directory, or the wrong one, still runs without an error. However, it is
// time-sliced with its neighbours and not subject to its task's limits. Pure.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/values/ids.h"

namespace carma::daemon {

// Compares the clients of one server with the processes on its GPUs.
class MpsClientCheck {
 public:
  using Key = std::pair<core::TaskId, int>;  // a task and its attempt
  using Processes = std::map<Key, std::set<pid_t>>;

  // Records which of an attempt's processes the driver now lists on its GPUs.
  void Seen(const Key& who, const std::vector<pid_t>& pids);
  void Forget(const Key& who);
  // The most recently recorded processes. Call this before listing the server's clients, and pass
  // both lists to Compare().
  const Processes& seen() const { return seen_; }
  // Returns processes that bypass the server and were not reported before. A process bypasses the
  // server if it is still running and is missing from two successive client lists. clients: the
  // server's clients, listed after `before` was taken.
  Processes Compare(const Processes& before, const std::vector<pid_t>& clients);
  const Processes& outside() const { return outside_; }

 private:
  Processes seen_, missed_, outside_;
};

}  // namespace carma::daemon
