// The cores close to a GPU: those of its NUMA node.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace carma::gpu {

// Read from the kernel for the PCI device ("00000000:07:00.0" in the driver's form). root: "" for
// this machine, or a folder with its own sys. Empty: unknown, or all are equally close.
std::vector<int> NearCpus(const std::string& root, std::string_view pci);

// For GPU `index` of a simulated server with two sockets, each of which has half of the GPUs and
// half of this machine's cores.
std::vector<int> NearCpusSimulated(const std::vector<int>& cpus, std::size_t index,
                                   std::size_t gpus);

}  // namespace carma::gpu
