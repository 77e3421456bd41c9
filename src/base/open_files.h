// Raises the limit on open files of this process.
#pragma once

#include <cstdint>

namespace carma::base {

// Enough for carmad, and for the data loaders of a task.
inline constexpr std::uint64_t kManyOpenFiles = 65'536;

// Raises the soft limit on open files towards the hard limit, to at most `wanted`, and never lowers
// it. Returns the limit in force afterwards; 0: unknown. Many systems start with 1,024, too few for
// data loaders with many workers.
std::uint64_t RaiseOpenFiles(std::uint64_t wanted = kManyOpenFiles);

}  // namespace carma::base
