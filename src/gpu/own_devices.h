// Of a server's GPUs those that somebody was given: an allocation of a cluster, for instance.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

struct OwnDevices {
  std::vector<DeviceInfo> devices;   // in the order of the list
  std::vector<std::string> unknown;  // names that none of the list has
};

// names: numbers of whole GPUs in PCI order, as CUDA and Slurm count them, whether they are divided
// or not: that of a divided one means all its instances; or UUIDs of GPUs and instances, or their
// beginnings, which mean all that begin so. Pure.
OwnDevices OnlyNamed(std::vector<DeviceInfo> devices, std::span<const std::string> names);

}  // namespace carma::gpu
