// Runs independent work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace carma::sim {

// Calls work(0) … work(count - 1), each once, on at most `threads` threads including the caller's.
// Returns when all calls have returned.
void ForEachIndex(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace carma::sim
