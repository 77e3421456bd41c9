// MIG modes that an administrator has set but that need a reset to take effect.
#pragma once

#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

struct PendingMigMode {
  std::string uuid;  // of the whole GPU
  bool on = false;   // after the next reset
  friend bool operator==(const PendingMigMode&, const PendingMigMode&) = default;
};

// GPUs whose mode will change, in NVML's order; empty if unsupported. May block; worker only.
std::vector<PendingMigMode> AskPendingMigModes(const std::string& library);

// Share of the whole GPU's SMs that an instance has, by its name: of seven slices (an A30 has four)
// "3g.20gb" has three, "1c.3g.20gb" one. 1 for an unknown name.
double ComputeShareOf(const MigPlace& place);

}  // namespace carma::gpu
