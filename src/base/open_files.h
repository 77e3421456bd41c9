// Raises this process's limit on open files.
#pragma once

#include <cstdint>

namespace carma::base {

// Enough open files for carmad and for the data loaders of a task.
inline constexpr std::uint64_t kManyOpenFiles = 65'536;

// Raises the soft limit on open files to `wanted`, or to the hard limit if that is lower. Never
// lowers the limit. Returns the limit that is now in force; 0: unknown. Many systems start with
// 1,024, which is too few for data loaders with many workers.
std::uint64_t RaiseOpenFiles(std::uint64_t wanted = kManyOpenFiles);

}  // namespace carma::base
