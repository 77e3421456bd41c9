// Shared by a test and the library that makes a program's system calls fail (failing_calls.cc).
#pragma once

#include <atomic>
#include <cstdint>

namespace carma::system_test {

// The layout of the file that the test and the library share. The environment variable
// FAILING_CALLS holds the file's path.
struct CallOrders {
  std::atomic<std::int64_t> calls;  // number of calls since the test last set this to 0
  std::atomic<std::int64_t> first;  // calls from this number on fail, counted from 1; 0: none
  std::atomic<std::int64_t> last;
  char failed[32];  // name of the last call that failed
};

}  // namespace carma::system_test
