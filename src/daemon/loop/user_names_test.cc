#include "daemon/loop/user_names.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <future>
#include <optional>

namespace carma::daemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Shared with the thread that calls it, which may outlive the test.
struct Database {
  std::promise<void> go_on;
  std::atomic<int> asked = 0;
  std::atomic<bool> hangs = false;
  std::atomic<bool> fails = false;
};

class UserNamesTest : public ::testing::Test {
 protected:
  void Open(milliseconds limit, milliseconds keep) {
    const auto look_up = [database = database_](std::uint32_t uid) -> Result<base::KnownUser> {
      ++database->asked;
      database->asked.notify_all();
      if (database->hangs) database->go_on.get_future().wait();
      if (database->fails) return Unavailable("cannot look up user {} in the user database", uid);
      return base::KnownUser{"user" + std::to_string(uid), 100, {100, uid}};
    };
    names_ = std::make_unique<UserNames>(loop_, UserNamesOptions{limit, keep, look_up});
  }
  // Runs the loop until the response has arrived.
  Result<std::string> Ask(std::uint32_t uid) {
    std::optional<Result<base::KnownUser>> answer;
    names_->Ask(uid, [&](Result<base::KnownUser> known) { answer = std::move(known); });
    loop_->restart();
    loop_->poll();
    while (!answer) loop_->run_one();
    if (!*answer) return std::unexpected(answer->error());
    return (*answer)->name;
  }
  void TearDown() override { names_.reset(); }

  std::shared_ptr<boost::asio::io_context> loop_ = std::make_shared<boost::asio::io_context>();
  std::shared_ptr<Database> database_ = std::make_shared<Database>();
  std::promise<void>& go_on_ = database_->go_on;
  std::atomic<int>& asked_ = database_->asked;
  std::atomic<bool>& hangs_ = database_->hangs;
  std::atomic<bool>& fails_ = database_->fails;
  std::unique_ptr<UserNames> names_;
};

TEST_F(UserNamesTest, ACachedNameIsNotLookedUpAgain) {
  Open(hours(1), hours(1));
  EXPECT_EQ(Ask(7), "user7");
  EXPECT_EQ(Ask(7), "user7");
  EXPECT_EQ(Ask(8), "user8");
  EXPECT_EQ(asked_, 2);
}

TEST_F(UserNamesTest, AnExpiredNameIsLookedUpAgain) {
  Open(hours(1), milliseconds(0));
  EXPECT_EQ(Ask(7), "user7");
  EXPECT_EQ(Ask(7), "user7");
  EXPECT_EQ(asked_, 2);
}

TEST_F(UserNamesTest, AllWaitersGetOneAnswer) {
  Open(hours(1), hours(1));
  int answers = 0;
  names_->Ask(7, [&](const Result<base::KnownUser>& known) { answers += known->name == "user7"; });
  EXPECT_EQ(Ask(7), "user7");
  EXPECT_EQ(answers, 1);
  EXPECT_EQ(asked_, 1);
}

TEST_F(UserNamesTest, AHangingDatabaseIsUnavailableUntilItAnswersAgain) {
  hangs_ = true;
  Open(milliseconds(1), hours(1));
  const Result<std::string> none = Ask(7);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  hangs_ = false;
  go_on_.set_value();
  Result<std::string> name = Ask(7);
  while (!name) name = Ask(7);  // the thread takes a moment to return
  EXPECT_EQ(name, "user7");
  EXPECT_EQ(asked_, 1);
}

TEST_F(UserNamesTest, OnlyOneCallerWaitsForADatabaseThatHangs) {
  hangs_ = true;
  Open(milliseconds(1), hours(1));
  EXPECT_FALSE(Ask(7));
  bool refused = false;
  names_->Ask(7, [&](const Result<base::KnownUser>& known) { refused = !known; });
  EXPECT_TRUE(refused);
  go_on_.set_value();
}

TEST_F(UserNamesTest, AnExpiredNameIsUsedWhileTheDatabaseHangs) {
  Open(milliseconds(1), milliseconds(0));
  Result<std::string> name = Ask(7);
  while (!name) name = Ask(7);
  hangs_ = true;
  EXPECT_EQ(Ask(7), "user7");
  go_on_.set_value();
}

TEST_F(UserNamesTest, AFailureOfTheDatabaseReplacesNoName) {
  Open(hours(1), milliseconds(0));
  EXPECT_EQ(Ask(7), "user7");
  fails_ = true;
  EXPECT_EQ(Ask(7), "user7");
  const Result<std::string> none = Ask(8);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  fails_ = false;
  EXPECT_EQ(Ask(8), "user8");
}

TEST_F(UserNamesTest, MakesNoCallbackAfterDestruction) {
  hangs_ = true;
  Open(hours(1), hours(1));
  bool called = false;
  names_->Ask(7, [&](const Result<base::KnownUser>&) { called = true; });
  asked_.wait(0);
  // The hanging thread is abandoned and finishes later on its own.
  names_.reset();
  go_on_.set_value();
  loop_->restart();
  loop_->run_for(milliseconds(20));
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace carma::daemon
