// Selects some of a server's GPUs, for example the GPUs of a cluster allocation.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

// For each listed device, the PCI-order index of its physical GPU (for a MIG instance, the parent
// GPU).
std::vector<std::size_t> NumbersOfWhole(const std::vector<DeviceInfo>& devices);

struct OwnDevices {
  std::vector<DeviceInfo> devices;   // in list order
  std::vector<std::size_t> indices;  // of these devices in the list
  std::vector<std::string> unknown;  // names without a match
};

// Selects the named devices. A name is a whole GPU's number in PCI order (as in CUDA and Slurm),
// the UUID of a GPU or instance, or a UUID prefix. The number of a MIG GPU selects all its
// instances, and a prefix selects all matching devices. Without names, all devices are selected.
OwnDevices OnlyNamed(std::vector<DeviceInfo> devices, std::span<const std::string> names);

}  // namespace carma::gpu
