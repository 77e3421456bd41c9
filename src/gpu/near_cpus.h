// Finds the cores close to a GPU, which are those of its NUMA node.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace carma::gpu {

// Reads the cores of a PCI device ("00000000:07:00.0" in the driver's form) from the kernel. root:
// "" for this machine, or a folder with its own sys. Empty if unknown or if all cores are equally
// close.
std::vector<int> NearCpus(const std::string& root, std::string_view pci);

// Returns the cores of GPU `index` of a simulated server. Each of its two sockets has half of the
// GPUs and half of this machine's cores.
std::vector<int> NearCpusSimulated(const std::vector<int>& cpus, std::size_t index,
                                   std::size_t gpus);

}  // namespace carma::gpu
