// What this machine has beside GPUs, as the kernel tells it, and what of it is for tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/books/host.h"

namespace carma::task {

struct HostFacts {
  // Hardware threads that this process may use, those of one core beside each other.
  std::vector<int> cpus;
  std::int64_t memory_mib = 0;  // 0: not told
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

// root: "" for this machine; another folder has its own proc and sys below it. cgroup: folder of a
// group whose memory.max holds for tasks too, for example a container's; empty: none. Does not
// fail: what the kernel does not tell is not there.
HostFacts ReadHostFacts(const std::string& root, const std::string& cgroup);

// By the configuration, where it says; 0 there: not counted. Else all but a reserve for the system:
// one CPU where there are 8 or more, and a tenth of the memory, at most 16 GiB.
core::HostInfo ForTasks(const HostFacts& facts, const std::optional<int>& cpus,
                        const std::optional<std::int64_t>& memory_mib);

}  // namespace carma::task
