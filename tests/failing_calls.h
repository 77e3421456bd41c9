// Shared by a test and the library that makes a program's system calls fail (failing_calls.cc).
#pragma once

#include <atomic>
#include <cstdint>

namespace carma::system_test {

// The content of the file that test and library share; the variable FAILING_CALLS holds its path.
struct CallOrders {
  std::atomic<std::int64_t> calls;  // made since the test last set it to 0
  std::atomic<std::int64_t> first;  // calls with these numbers fail, from 1 on; 0: none
  std::atomic<std::int64_t> last;
  char failed[32];  // name of the last that failed
};

}  // namespace carma::system_test
