#include "daemon/loop/signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <vector>

namespace carma::daemon {
namespace {

TEST(Signals, EachSignalIsReportedOnTheLoop) {
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Signals::Block();
  boost::asio::io_context loop(1);
  Signals signals(loop);
  std::vector<int> heard;
  ASSERT_TRUE(signals.Listen([&](int number) {
    heard.push_back(number);
    if (heard.size() == 2) return loop.stop();
    ::pthread_kill(::pthread_self(), SIGTERM);
  }));
  ::pthread_kill(::pthread_self(), SIGHUP);
  loop.run();
  EXPECT_THAT(heard, ::testing::ElementsAre(SIGHUP, SIGTERM));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace carma::daemon
