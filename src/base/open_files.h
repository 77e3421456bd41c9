// Raises this process's open file limit.
#pragma once

#include <cstdint>

namespace carma::base {

// Enough open files for carmad and for a task's data loaders.
inline constexpr std::uint64_t kManyOpenFiles = 65'536;

// Raises the soft limit on open files to `wanted`, or to the hard limit if that is lower. Never
// lowers the limit. Returns the limit now in force, or 0 if it is unknown. The default soft limit
// is often 1,024, which is too low for data loaders with many workers.
std::uint64_t RaiseOpenFiles(std::uint64_t wanted = kManyOpenFiles);

}  // namespace carma::base
