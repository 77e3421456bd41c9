#include "daemon/http/slow_answers.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <future>
#include <thread>
#include <vector>

namespace carma::daemon {
namespace {

namespace asio = boost::asio;

constexpr auto kPatience = std::chrono::seconds(30);
constexpr std::uint32_t kAdasUid = 1000, kBobsUid = 1001;

Answer Text(const std::string& text) {
  return api::Response{.body = text};
}

class SlowAnswersTest : public ::testing::Test {
 protected:
  void Until(const std::function<bool()>& so) {
    const auto patience = std::chrono::steady_clock::now() + kPatience;
    while (!so() && std::chrono::steady_clock::now() < patience) loop_->run_one_for(kPatience);
    ASSERT_TRUE(so());
  }
  void Open(const SlowAnswersOptions& options) {
    answers_ = std::make_unique<SlowAnswers>(
        loop_, [this] { ++reports_sent_; }, options);
  }
  std::function<void(Answer)> Kept() {
    return [this](Answer answer) { kept_.push_back(std::move(answer)); };
  }

  std::shared_ptr<asio::io_context> loop_ = std::make_shared<asio::io_context>(1);
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(*loop_);
  std::vector<Answer> kept_;
  int reports_sent_ = 0;
  std::unique_ptr<SlowAnswers> answers_;
};

TEST_F(SlowAnswersTest, LimitsWaitingReports) {
  Open({.most_reports = 2});
  std::promise<void> go;
  const auto first = [wait = go.get_future().share()](const std::atomic<bool>&) {
    wait.wait();
    return Text("first");
  };
  ASSERT_TRUE(answers_->Report(first, Kept()));
  ASSERT_TRUE(answers_->Report([](const std::atomic<bool>&) { return Text("second"); }, Kept()));
  const auto refused = answers_->Report(first, Kept());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "2 reports are already being built; try again");
  go.set_value();
  Until([&] { return reports_sent_ == 2; });
  EXPECT_EQ(kept_.at(0)->body, "first");
  EXPECT_EQ(kept_.at(1)->body, "second");
}

TEST_F(SlowAnswersTest, NotifiesAReportThatIsNoLongerWanted) {
  Open({});
  std::promise<void> begun;
  bool ended = false;
  ASSERT_TRUE(answers_->Report(
      [&](const std::atomic<bool>& wanted) {
        begun.set_value();
        wanted.wait(true);
        ended = true;
        return Text("");
      },
      Kept()));
  begun.get_future().wait();
  answers_.reset();
  EXPECT_TRUE(ended) << "the destructor waits for it";
  EXPECT_TRUE(kept_.empty());
}

TEST_F(SlowAnswersTest, AbandonsADiskThatDoesNotAnswer) {
  Open({.most_files = 2, .file_limit = std::chrono::milliseconds(20)});
  const auto go = std::make_shared<std::promise<void>>();  // shared with the abandoned thread
  answers_->ReadFile(
      kAdasUid,
      [go] {
        go->get_future().wait();
        return Text("late");
      },
      Kept());
  Until([&] { return kept_.size() == 1; });
  ASSERT_FALSE(kept_[0]);
  EXPECT_EQ(kept_[0].error().message, "the disk holding the task's output is not responding");
  answers_->ReadFile(
      kAdasUid, [] { return Text("of another disk"); }, Kept());
  Until([&] { return kept_.size() == 2; });
  EXPECT_EQ(kept_[1]->body, "of another disk");
  go->set_value();
}

TEST_F(SlowAnswersTest, ReadsDroppedWithAHungDiskDoNotCount) {
  Open({.most_files = 4, .file_limit = std::chrono::milliseconds(20)});
  const auto go = std::make_shared<std::promise<void>>();
  const auto wait = [hung = go->get_future().share()] {
    hung.wait();
    return Text("late");
  };
  for (int i = 0; i < 4; ++i) answers_->ReadFile(kAdasUid, wait, Kept());
  Until([&] { return kept_.size() == 4; });
  for (int i = 0; i < 3; ++i)
    answers_->ReadFile(
        kAdasUid, [] { return Text("of another disk"); }, Kept());
  Until([&] { return kept_.size() == 7; });
  for (int i = 4; i < 7; ++i) EXPECT_TRUE(kept_[static_cast<std::size_t>(i)]);
  go->set_value();
}

TEST_F(SlowAnswersTest, LimitsConcurrentReads) {
  Open({.most_files = 1});
  answers_->ReadFile(
      kAdasUid, [] { return Text("a"); }, Kept());
  answers_->ReadFile(
      kAdasUid, [] { return Text("b"); }, Kept());
  ASSERT_EQ(kept_.size(), 1U) << "refused immediately";
  EXPECT_EQ(kept_[0].error().message, "too many files are being read; try again");
  Until([&] { return kept_.size() == 2; });
  EXPECT_EQ(kept_[1]->body, "a");
}

TEST_F(SlowAnswersTest, AHungDiskAffectsOnlyItsUser) {
  Open({.most_files = 6, .most_files_of_user = 3});
  const auto go = std::make_shared<std::promise<void>>();
  const auto wait = [hung = go->get_future().share()] {
    hung.wait();
    return Text("ada's");
  };
  for (int i = 0; i < 4; ++i) answers_->ReadFile(kAdasUid, wait, Kept());
  ASSERT_EQ(kept_.size(), 1U) << "one too many";
  EXPECT_EQ(kept_[0].error().message, "too many files are being read; try again");
  for (int i = 0; i < 3; ++i)
    answers_->ReadFile(
        kBobsUid, [] { return Text("bob's"); }, Kept());
  Until([&] { return kept_.size() == 4; });
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(kept_[i].value().body, "bob's");
  go->set_value();
  Until([&] { return kept_.size() == 7; });
  for (std::size_t i = 4; i < 7; ++i) EXPECT_EQ(kept_[i].value().body, "ada's");
  answers_->ReadFile(
      kAdasUid, [] { return Text("next"); }, Kept());
  Until([&] { return kept_.size() == 8; });
  EXPECT_EQ(kept_[7].value().body, "next");
}

TEST_F(SlowAnswersTest, AReadThatReturnsLateLeavesNoReadUnanswered) {
  Open({.file_limit = std::chrono::milliseconds(20)});
  const auto go = std::make_shared<std::promise<void>>();
  answers_->ReadFile(
      kAdasUid,
      [go] {
        go->get_future().wait();
        return Text("late");
      },
      [&, keep = Kept()](Answer answer) {
        keep(std::move(answer));
        go->set_value();
      });
  answers_->ReadFile(
      kAdasUid, [] { return Text("dropped"); }, Kept());
  Until([&] { return kept_.size() == 2; });
  for (const Answer& answer : kept_) EXPECT_FALSE(answer);
}

TEST_F(SlowAnswersTest, ReadsBodiesOffTheLoop) {
  Open({});
  std::thread::id reader;
  bool done = false;
  answers_->ReadBody([&] { reader = std::this_thread::get_id(); }, [&] { done = true; });
  Until([&] { return done; });
  EXPECT_NE(reader, std::this_thread::get_id());
}

}  // namespace
}  // namespace carma::daemon
