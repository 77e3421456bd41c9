// MIG modes that wait for a reset: what an administrator has asked for and does not have yet.
#pragma once

#include <string>
#include <vector>

namespace carma::gpu {

struct PendingMigMode {
  std::string uuid;  // of the whole GPU
  bool on = false;   // what the next reset makes of it
  friend bool operator==(const PendingMigMode&, const PendingMigMode&) = default;
};

// GPUs whose mode will change, in NVML's order. Nothing where that cannot be asked. May block;
// worker only.
std::vector<PendingMigMode> AskPendingMigModes(const std::string& library);

}  // namespace carma::gpu
