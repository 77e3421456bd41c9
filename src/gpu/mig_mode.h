// MIG modes that wait for a reset: what an administrator has asked for and does not have yet.
#pragma once

#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

struct PendingMigMode {
  std::string uuid;  // of the whole GPU
  bool on = false;   // what the next reset makes of it
  friend bool operator==(const PendingMigMode&, const PendingMigMode&) = default;
};

// GPUs whose mode will change, in NVML's order. Nothing where that cannot be asked. May block;
// worker only.
std::vector<PendingMigMode> AskPendingMigModes(const std::string& library);

// Share of the whole GPU's SMs that an instance has, by its name: of seven slices "3g.20gb" has
// three, "1c.3g.20gb" one. 1 where the name tells nothing.
double ComputeShareOf(const MigPlace& place);

}  // namespace carma::gpu
