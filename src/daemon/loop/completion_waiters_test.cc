#include "daemon/loop/completion_waiters.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

namespace carma::daemon {
namespace {

constexpr core::TaskId kTask{7};
constexpr core::TaskId kOther{8};
constexpr auto kForEver = std::chrono::hours(1);
constexpr auto kAtOnce = std::chrono::nanoseconds(0);

class CompletionWaitersTest : public ::testing::Test {
 protected:
  void Await(core::TaskId task, std::chrono::nanoseconds limit, char name) {
    ends_->Await(task, limit, [this, name] { called_ += name; });
  }
  // Runs all alarms that are due now.
  void RunWhatIsDue() {
    loop_.restart();
    loop_.poll();
  }

  boost::asio::io_context loop_{1};
  std::unique_ptr<CompletionWaiters> ends_ = std::make_unique<CompletionWaiters>(loop_);
  std::string called_;
};

TEST_F(CompletionWaitersTest, AnEndCallsItsWaitersInOrder) {
  Await(kTask, kForEver, 'a');
  Await(kOther, kForEver, 'x');
  Await(kTask, kForEver, 'b');
  EXPECT_EQ(called_, "");
  ends_->Ended(kTask);
  EXPECT_EQ(called_, "ab");
  EXPECT_EQ(ends_->waiting(), 1U);
  ends_->Ended(kTask);
  EXPECT_EQ(called_, "ab") << "each is called once";
}

TEST_F(CompletionWaitersTest, ALimitCallsOnlyItsOwnWaiter) {
  Await(kTask, kForEver, 'a');
  Await(kTask, kAtOnce, 'b');
  Await(kOther, kAtOnce, 'c');
  EXPECT_EQ(called_, "") << "never before Await() returns";
  RunWhatIsDue();
  EXPECT_EQ(called_, "bc");
  EXPECT_EQ(ends_->waiting(), 1U);
  ends_->Ended(kTask);
  EXPECT_EQ(called_, "bca");
  EXPECT_EQ(ends_->waiting(), 0U);
}

TEST_F(CompletionWaitersTest, ALimitThatEndsWithTheTaskDoesNotCallTwice) {
  Await(kTask, kAtOnce, 'a');
  ends_->Ended(kTask);
  RunWhatIsDue();
  EXPECT_EQ(called_, "a");
}

TEST_F(CompletionWaitersTest, ACallbackMayWaitAgain) {
  ends_->Await(kTask, kForEver, [this] {
    called_ += 'a';
    Await(kTask, kForEver, 'b');
  });
  ends_->Await(kOther, kAtOnce, [this] {
    called_ += 'c';
    Await(kOther, kForEver, 'd');
  });
  ends_->Ended(kTask);
  RunWhatIsDue();
  EXPECT_EQ(called_, "ac");
  EXPECT_EQ(ends_->waiting(), 2U);
}

TEST_F(CompletionWaitersTest, MakesNoCallbackAfterDestruction) {
  Await(kTask, kAtOnce, 'a');
  ends_.reset();
  RunWhatIsDue();
  EXPECT_EQ(called_, "");
}

}  // namespace
}  // namespace carma::daemon
