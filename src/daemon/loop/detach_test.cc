#include "daemon/loop/detach.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace carma::daemon {
namespace {

constexpr std::chrono::milliseconds kLong{60'000};

TEST(RunDetached, ReportsAProcessThatServesInItsOwnSession) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Result<Detached> started = RunDetached(
      [&](const std::function<void()>& serves) {
        const bool leads = ::getsid(0) == ::getpid();
        serves();
        [[maybe_unused]] const ssize_t told = ::write(ends[1], leads ? "y" : "n", 1);
        ::pause();
        return 0;
      },
      kLong);
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_TRUE(started->serves);
  char leads = 0;
  ASSERT_EQ(::read(ends[0], &leads, 1), 1);
  EXPECT_EQ(leads, 'y');
  EXPECT_EQ(::kill(started->pid, SIGKILL), 0) << "it is still running";
  ::waitpid(started->pid, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(RunDetached, ReportsTheExitStatusOfAProcessThatNeverServed) {
  const auto refuses = [](const std::function<void()>&) { return 3; };
  const Result<Detached> ended = RunDetached(refuses, kLong);
  ASSERT_TRUE(ended);
  EXPECT_FALSE(ended->serves);
  EXPECT_EQ(WEXITSTATUS(ended->status), 3);
  const auto dies = [](const std::function<void()>&) { return ::raise(SIGKILL); };
  const Result<Detached> killed = RunDetached(dies, kLong);
  ASSERT_TRUE(killed);
  EXPECT_TRUE(WIFSIGNALED(killed->status));
}

TEST(RunDetached, KillsAProcessThatDoesNotServeInTime) {
  const auto hangs = [](const std::function<void()>&) { return ::pause(); };
  const Result<Detached> late = RunDetached(hangs, std::chrono::milliseconds(50));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace carma::daemon
