// Cores and memory of this machine as reported by the kernel, and the amounts that tasks may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/books/host.h"

namespace carma::task {

struct HostFacts {
  // Hardware threads that this process may use. Threads of one core are adjacent.
  std::vector<int> cpus;
  std::int64_t memory_mib = 0;  // 0: unknown
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

// root: "" for this machine, or a folder with its own proc and sys. cgroup: folder of a group, such
// as a container's, whose memory.max also limits tasks; may be empty. Never fails; facts that
// cannot be read are left out.
HostFacts ReadHostFacts(const std::string& root, const std::string& cgroup);

// Returns how many cores and how much memory tasks may use: the configured values (0 means not
// counted) or, by default, everything except a reserve for the system. The reserve is one CPU if
// there are at least 8, and a tenth of the memory, up to 16 GiB.
core::HostInfo ForTasks(const HostFacts& facts, const std::optional<int>& cpus,
                        const std::optional<std::int64_t>& memory_mib);

}  // namespace carma::task
