#include "daemon/engine/notice_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/fake_clock.h"
#include "base/file.h"
#include "store/task_fixture.h"
#include "task/notify/order.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

class NoticeSenderTest : public ::testing::Test {
 protected:
  NoticeSenderTest() {
    dir_ = ::testing::TempDir() + "carma-sender-XXXXXX";
    CARMA_CHECK(::mkdtemp(dir_.data()) != nullptr, "no folder for the test");
    store_ = store::Store::Open(dir_).value();
    Program("cat >> " + dir_ + "/orders");
    sender_ = std::make_unique<NoticeSender>(
        loop_, *store_, clock_,
        NoticeSenderOptions{dir_ + "/program", "/usr/sbin/sendmail", base::Duration(10'000)},
        [this](store::Notice result) { results_.push_back(std::move(result)); });
  }
  ~NoticeSenderTest() override {
    sender_.reset();
    store_.reset();
    std::filesystem::remove_all(dir_);
  }
  void Program(const std::string& text) {
    const std::string path = dir_ + "/program";
    std::filesystem::remove(path);
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    ::chmod(path.c_str(), 0755);
  }
  void Add(std::uint32_t uid = 7) {
    ASSERT_TRUE(store_->Begin());
    ASSERT_TRUE(store_->AddNotice(
        {.uid = uid, .event = "end", .target = "mail:ada", .message = R"({"text":"it ended"})"}));
    ASSERT_TRUE(store_->Commit());
  }
  // Waits for the next result, stores it and returns it.
  store::Notice Next() {
    while (results_.empty() && loop_.run_one() > 0) {
    }
    if (results_.empty()) return {};
    store::Notice result = results_.front();
    results_.erase(results_.begin());
    EXPECT_TRUE(store_->Begin());
    EXPECT_TRUE(store_->PutNoticeResult(result));
    EXPECT_TRUE(store_->Commit());
    return result;
  }

  std::string dir_;
  boost::asio::io_context loop_;
  base::FakeClock clock_{base::FromMs(1'000'000)};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<NoticeSender> sender_;
  std::vector<store::Notice> results_;
};

TEST_F(NoticeSenderTest, SendsStoredNotices) {
  Add();
  sender_->Look();
  EXPECT_EQ(Next().state, store::NoticeState::kSent);
  const auto order = task::ParseNoticeOrder(base::ReadFile(dir_ + "/orders", 100'000).value_or(""));
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->target, "mail:ada");
  EXPECT_EQ(order->text, "it ended");
  EXPECT_EQ(order->uid, 7U);
  EXPECT_TRUE(store_->WaitingNotices(10)->empty());
}

TEST_F(NoticeSenderTest, UsesTheUserNameFromTheSubmission) {
  store::StoredTask task = store::FullTask(3);
  task.user = "ada";
  ASSERT_TRUE(store_->Begin());
  ASSERT_TRUE(store_->PutTask(task));
  ASSERT_TRUE(store_->AddNotice(
      {.task = core::TaskId{3}, .uid = 7, .event = "end", .target = "me", .message = "{}"}));
  ASSERT_TRUE(store_->Commit());
  sender_->Look();
  EXPECT_EQ(Next().state, store::NoticeState::kSent);
  const auto order = task::ParseNoticeOrder(base::ReadFile(dir_ + "/orders", 100'000).value_or(""));
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->user, "ada");
  EXPECT_EQ(order->gid, task.gid);
}

TEST_F(NoticeSenderTest, RetriesLaterAndFinallyGivesUp) {
  Program("echo 'queue is full'; exit 75");
  Add();
  for (int tries = 1; tries <= 5; ++tries) {
    sender_->Look();
    const store::Notice result = Next();
    EXPECT_EQ(result.state, store::NoticeState::kWaiting);
    EXPECT_EQ(result.tries, tries);
    EXPECT_EQ(result.text, "queue is full");
    EXPECT_GT(result.next, clock_.Now());
    clock_.MoveTo(result.next);
  }
  sender_->Look();
  EXPECT_EQ(Next().state, store::NoticeState::kFailed);
}

TEST_F(NoticeSenderTest, PermanentErrorsAreNotRetried) {
  Program("echo 'curl is not installed'; exit 69");
  Add();
  sender_->Look();
  const store::Notice result = Next();
  EXPECT_EQ(result.state, store::NoticeState::kFailed);
  EXPECT_THAT(result.text, HasSubstr("curl"));
}

TEST_F(NoticeSenderTest, SendsNothingTwiceWhileTheResultIsNotDurable) {
  Add();
  sender_->Look();
  while (results_.empty()) loop_.run_one();
  sender_->Look();
  loop_.restart();
  loop_.run();
  EXPECT_EQ(results_.size(), 1U);
}

TEST_F(NoticeSenderTest, OneUserCannotBlockOtherUsers) {
  // Notices for user 7 hang until the test opens the gate.
  Program("grep -q '\"uid\":8' && exit 0; : < " + dir_ + "/gate");
  ASSERT_EQ(::mkfifo((dir_ + "/gate").c_str(), 0600), 0);
  for (int i = 0; i < 5; ++i) Add(7);
  Add(8);
  sender_->Look();
  EXPECT_EQ(Next().uid, 8U);
  const std::ofstream gate(dir_ + "/gate");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Next().uid, 7U);
}

}  // namespace
}  // namespace carma::daemon
