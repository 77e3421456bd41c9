// Finds the CPU cores close to a GPU: the cores of its NUMA node.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace carma::gpu {

// Asks the kernel which cores are close to a PCI device. pci: in the driver's form,
// "00000000:07:00.0". root: "" for this machine, or a folder that contains a `sys` folder. Empty if
// the cores are unknown or all equally close.
std::vector<int> NearCpus(const std::string& root, std::string_view pci);

// The cores close to GPU `index` of a simulated server. Each of the server's two sockets has half
// of the GPUs and half of this machine's cores.
std::vector<int> NearCpusSimulated(const std::vector<int>& cpus, std::size_t index,
                                   std::size_t gpus);

}  // namespace carma::gpu
