// SM partitions of one MPS server: which attempt owns which. Its calls ask the control daemon, so
// they belong on the server's worker, in the order of the attempts' arrivals and departures.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/result.h"
#include "daemon/engine/mps_clients.h"
#include "task/mps/mps_control.h"

namespace carma::daemon {

// What an attempt gets from its server besides a client's slot.
struct MpsPlace {
  std::string partition = {};  // as in core::Sharing; empty: none
  int sms = 0;
  std::string note = {};  // why it has none although it was to have one, a sentence; or empty
};

// A server and the clients that it had before this one.
struct MpsLook {
  task::MpsServer server;
  std::size_t clients = 0;
  MpsPlace place = {};
};

class MpsPartitions {
 public:
  using Key = MpsClients::Key;
  using Deadline = task::MpsControl::Deadline;

  // Gives the attempt a place on the server, which is started if necessary: with partitions if this
  // attempt asks for a share of the SMs (0: it does not) and the GPU has them. Errors: those of
  // task::MpsControl::Ready(); kConflict, a sentence: no partition is left, or the attempt asks for
  // none although each client needs one.
  Result<MpsLook> Join(const task::MpsControl& control, const Key& who, double share,
                       Deadline deadline);
  // Registers the partition of an attempt of an earlier run of the daemon.
  void Adopt(const Key& who, const std::string& partition);
  // Call it when the attempt has ended.
  void TakeBack(const task::MpsControl& control, const Key& who, Deadline deadline);
  // Removes partitions that no attempt owns, because a process still used them when their attempt
  // ended.
  void Tidy(const task::MpsControl& control, Deadline deadline);

 private:
  Result<MpsLook> Look(const task::MpsControl& control, double share, Deadline deadline);
  // kUnavailable: the GPU has no partitions, or this attempt asks for none and no other owns one.
  Result<MpsPlace> Give(const task::MpsControl& control, const Key& who, double share,
                        Deadline deadline);
  void RemoveUnowned(const task::MpsControl& control, Deadline deadline);

  std::map<Key, std::string> owned_;  // without the GPU's UUID
  bool leftovers_ = false;
  bool work_ = true;  // as far as is known
};

}  // namespace carma::daemon
