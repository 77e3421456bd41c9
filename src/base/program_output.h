// What a program that ends soon has to say.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace carma::base {

// Its standard output, once it has ended; empty if it cannot be started, fails, or says more than
// so many bytes. One that takes longer than `patience` is killed.
std::string OutputOf(const std::vector<std::string>& words, std::size_t max_bytes,
                     std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace carma::base
