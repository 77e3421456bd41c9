// Between a test and the library that makes system calls of a program fail (failing_calls.cc).
#pragma once

#include <atomic>
#include <cstdint>

namespace carma::system_test {

// A file of this shape, named by FAILING_CALLS in the program's environment, shared by both.
struct CallOrders {
  std::atomic<std::int64_t> calls;  // made since the test last set it to 0
  std::atomic<std::int64_t> first;  // calls with these numbers fail, from 1 on; 0: none
  std::atomic<std::int64_t> last;
  char failed[32];  // name of the last that failed
};

}  // namespace carma::system_test
