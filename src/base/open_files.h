// How many files this process may have open.
#pragma once

#include <cstdint>

namespace carma::base {

// Enough for carmad and for a task.
inline constexpr std::uint64_t kManyOpenFiles = 65'536;

// Raises the soft limit of open files towards the hard one, at most to `wanted`, and never lowers
// it. Returns the limit then in force; 0: unknown. On many systems it is 1,024 at first, too few
// for data loaders with many workers.
std::uint64_t RaiseOpenFiles(std::uint64_t wanted = kManyOpenFiles);

}  // namespace carma::base
