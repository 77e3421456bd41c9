// Which cores a GPU is beside: those of its NUMA node.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace carma::gpu {

// As the kernel tells it of the PCI device ("00000000:07:00.0" as the driver writes it). root: ""
// for this machine; another folder has its own sys below it. Empty: not told, or all are as near.
std::vector<int> NearCpus(const std::string& root, std::string_view pci);

// Of GPU `index` of a simulated server of so many, which has two sockets with half of the GPUs and
// of this machine's cores each.
std::vector<int> NearCpusSimulated(const std::vector<int>& cpus, std::size_t index,
                                   std::size_t gpus);

}  // namespace carma::gpu
