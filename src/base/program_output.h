// Captures the output of a short-lived program.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace carma::base {

// Returns the program's standard output once it has exited. Empty if the program cannot be started,
// fails, or prints more than max_bytes. The program is killed after `patience`.
std::string OutputOf(const std::vector<std::string>& words, std::size_t max_bytes,
                     std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace carma::base
