// Which processes of tasks compute without the MPS server of their task. A process with another or
// no pipe directory in its environment runs on the GPU all the same, without the limits of its task
// and in turns with its neighbours, and nothing tells it so. Pure.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/values/task.h"

namespace carma::daemon {

// Of one server.
class MpsClientCheck {
 public:
  using Key = std::pair<core::TaskId, int>;  // a task and its attempt
  using Processes = std::map<Key, std::set<pid_t>>;

  // The processes of an attempt that the driver lists on its GPUs now.
  void Seen(const Key& who, const std::vector<pid_t>& pids);
  void Forget(const Key& who);
  // Those that were seen last: what is to be given to Compare() with a list that is made later.
  const Processes& seen() const { return seen_; }
  // clients: of the server, listed after `before` was seen. A process that is on none of two lists
  // in a row, and is still seen, is outside. Returns those that are so for the first time.
  Processes Compare(const Processes& before, const std::vector<pid_t>& clients);
  const Processes& outside() const { return outside_; }

 private:
  Processes seen_, missed_, outside_;
};

}  // namespace carma::daemon
