#include "daemon/loop/loop_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/post.hpp>

namespace carma::daemon {
namespace {

using namespace std::chrono_literals;

TEST(LoopMeter, MeasuresTheDelayByALongHandler) {
  boost::asio::io_context loop(1);
  std::chrono::nanoseconds longest{0};
  int looks = 0;
  LoopMeter meter(loop, [&](std::chrono::nanoseconds late) {
    longest = std::max(longest, late);
    ++looks;
  });
  boost::asio::post(loop, [&meter] {
    meter.Look();
    meter.Look();
    const auto until = std::chrono::steady_clock::now() + 250ms;
    while (std::chrono::steady_clock::now() < until) {
    }
  });
  loop.run();
  EXPECT_GE(longest, 250ms - LoopMeter::kStep - 10ms);
  EXPECT_EQ(looks, 1) << "the loop was idle afterwards";
}

}  // namespace
}  // namespace carma::daemon
