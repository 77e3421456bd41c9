// Finds GPUs whose MIG mode will change at the next GPU reset.
#pragma once

#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

struct PendingMigMode {
  std::string uuid;  // the whole GPU's UUID
  bool on = false;   // mode after the next reset
  friend bool operator==(const PendingMigMode&, const PendingMigMode&) = default;
};

// Lists GPUs with a pending mode change, in NVML's order. Empty if unsupported. May block, so call
// it only on a worker thread.
std::vector<PendingMigMode> AskPendingMigModes(const std::string& library);

// An instance's share of the GPU's SMs, derived from the instance's name: "3g.20gb" has three of
// seven slices (an A30 has four slices), and "1c.3g.20gb" has one. Returns 1 for an unknown name.
double ComputeShareOf(const MigPlace& place);

}  // namespace carma::gpu
