// Manages the SM partitions of one MPS server and their owners. All calls talk to the control
// daemon. They must run on the server's worker, in the order in which attempts start and end.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/result.h"
#include "daemon/engine/mps_clients.h"
#include "task/mps/mps_control.h"

namespace carma::daemon {

// What an attempt gets from its server in addition to a client slot.
struct MpsPlace {
  std::string partition = {};  // as in core::Sharing; empty if there is none
  int sms = 0;
  std::string note = {};  // why it has no partition; empty if it needs none
};

// The result of Join(): the server, how many clients it had before, and the new client's resources.
struct MpsLook {
  task::MpsServer server;
  std::size_t clients = 0;
  MpsPlace place = {};
};

class MpsPartitions {
 public:
  using Key = MpsClients::Key;
  using Deadline = task::MpsControl::Deadline;

  // Makes the attempt a client of the server and starts the server if necessary. share: the
  // requested fraction of the SMs, or 0 for none. A server started for a share uses partitions if
  // the GPU supports them. Returns the errors of task::MpsControl::Ready(). Returns kConflict if no
  // partition is left, or if the attempt requests no share but the server's clients have
  // partitions.
  Result<MpsLook> Join(const task::MpsControl& control, const Key& who, double share,
                       Deadline deadline);
  // Registers the partition of an attempt from an earlier run of the daemon.
  void Adopt(const Key& who, const std::string& partition);
  // Must be called when the attempt has ended.
  void TakeBack(const task::MpsControl& control, const Key& who, Deadline deadline);
  // Removes partitions that no longer belong to an attempt. A partition can outlive its attempt if
  // a process is still using it.
  void Tidy(const task::MpsControl& control, Deadline deadline);

 private:
  Result<MpsLook> Look(const task::MpsControl& control, double share, Deadline deadline);
  // Returns kUnavailable if the server should run without partitions because the GPU does not
  // support them or no attempt needs one.
  Result<MpsPlace> Give(const task::MpsControl& control, const Key& who, double share,
                        Deadline deadline);
  void RemoveUnowned(const task::MpsControl& control, Deadline deadline);

  std::map<Key, std::string> owned_;  // partitions without the GPU's UUID
  bool leftovers_ = false;
  bool work_ = true;  // false if no partition could be added
};

}  // namespace carma::daemon
