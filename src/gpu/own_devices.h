// Selects some of a server's GPUs, for example those of a cluster allocation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

struct OwnDevices {
  std::vector<DeviceInfo> devices;   // in the order of the list
  std::vector<std::string> unknown;  // names without a match
};

// names: numbers of whole GPUs in PCI order, as in CUDA and Slurm (for a divided GPU, all its
// instances), or UUIDs of GPUs and instances or prefixes of UUIDs, which select all matches. Pure.
OwnDevices OnlyNamed(std::vector<DeviceInfo> devices, std::span<const std::string> names);

}  // namespace carma::gpu
