#include "daemon/loop/background_worker.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <future>
#include <system_error>
#include <thread>

namespace carma::daemon {
namespace {

namespace asio = boost::asio;
using AtEnd = BackgroundWorker::AtEnd;
using std::chrono_literals::operator""ms;

constexpr auto kPatience = std::chrono::seconds(30);

class BackgroundWorkerTest : public ::testing::Test {
 protected:
  void Until(const std::function<bool()>& so) {
    const auto patience = std::chrono::steady_clock::now() + kPatience;
    while (!so() && std::chrono::steady_clock::now() < patience) loop_->run_one_for(kPatience);
    ASSERT_TRUE(so());
  }

  std::shared_ptr<asio::io_context> loop_ = std::make_shared<asio::io_context>(1);
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(*loop_);
  std::unique_ptr<BackgroundWorker> worker_ =
      std::make_unique<BackgroundWorker>(loop_, AtEnd::kLeave);
};

TEST_F(BackgroundWorkerTest, JobsWaitUntilAThreadCanBeCreated) {
  int refused = 0;
  worker_ = std::make_unique<BackgroundWorker>(
      loop_, AtEnd::kWait, [&refused](std::function<void()> run) {
        if (refused++ < 3) throw std::system_error(EAGAIN, std::generic_category());
        return std::thread(std::move(run));
      });
  int answer = 0;
  worker_->Ask([] { return 42; }, [&](int answered) { answer = answered; });
  Until([&] { return answer == 42; });
  EXPECT_GT(refused, 3);
}

TEST(Worker, WithoutAThreadDestructionDoesNotWait) {
  Worker worker([](std::function<void()>) -> std::thread {
    throw std::system_error(EAGAIN, std::generic_category());
  });
  EXPECT_FALSE(worker.Start());
  worker.Do([] { FAIL(); });
}

TEST_F(BackgroundWorkerTest, AnswersComeInOrderAndOnTheLoop) {
  const auto here = std::this_thread::get_id();
  std::vector<int> answers;
  for (int i = 0; i < 3; ++i) {
    worker_->Ask(
        [i, here] {
          EXPECT_TRUE(std::this_thread::get_id() != here);
          return i;
        },
        [&, here](int answer) {
          EXPECT_TRUE(std::this_thread::get_id() == here);
          answers.push_back(answer);
        });
  }
  EXPECT_EQ(worker_->waiting(), 3);
  EXPECT_TRUE(answers.empty());
  Until([&] { return answers.size() == 3; });
  EXPECT_EQ(answers, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(worker_->waiting(), 0);
}

TEST_F(BackgroundWorkerTest, AnAnswerInTimeCancelsTheLimit) {
  bool late = false, answered = false;
  const auto first = worker_->Within(kPatience, [&] { late = true; });
  worker_->Ask([] { return 1; }, [&, first](int) { answered = first(); });
  Until([&] { return answered; });
  EXPECT_FALSE(late);
}

TEST_F(BackgroundWorkerTest, ALateAnswerIsKnownToBeLate) {
  std::promise<void> gate;
  bool late = false;
  std::optional<bool> in_time;
  const auto first = worker_->Within(1ms, [&] { late = true; });
  worker_->Ask([open = gate.get_future().share()] { return open.wait(), 1; },
               [&, first](int) { in_time = first(); });
  Until([&] { return late; });
  EXPECT_FALSE(in_time);
  gate.set_value();
  Until([&] { return in_time.has_value(); });
  EXPECT_FALSE(*in_time);
}

TEST_F(BackgroundWorkerTest, AStuckJobDoesNotKeepTheProcessFromEnding) {
  auto gate = std::make_shared<std::promise<void>>();
  auto left = std::make_shared<std::promise<void>>();
  auto begun = std::make_shared<std::promise<void>>();
  worker_->Ask(
      [open = gate->get_future().share(), left, begun] {
        begun->set_value();
        open.wait();
        left->set_value();
        return 1;
      },
      [](int) { FAIL() << "the caller is gone"; });
  const std::shared_ptr<const std::atomic<bool>> wanted = worker_->wanted();
  EXPECT_TRUE(*wanted);
  begun->get_future().wait();
  worker_.reset();
  EXPECT_FALSE(*wanted);
  gate->set_value();
  ASSERT_EQ(left->get_future().wait_for(kPatience), std::future_status::ready);
  loop_->run_for(10ms);
}

TEST_F(BackgroundWorkerTest, OtherJobsRunAfterAJobIsAbandoned) {
  std::promise<void> gate;
  std::vector<int> answers;
  const auto take = [&](int answer) { answers.push_back(answer); };
  std::promise<void> begun;
  worker_->Ask(
      [open = gate.get_future().share(), &begun] {
        begun.set_value();
        open.wait();
        return 1;
      },
      take);
  begun.get_future().wait();
  worker_->Abandon();
  worker_->Ask([] { return 2; }, take);
  Until([&] { return answers.size() == 1; });
  gate.set_value();
  Until([&] { return answers.size() == 2; });
  EXPECT_EQ(answers, (std::vector<int>{2, 1}));
}

TEST_F(BackgroundWorkerTest, MakesNoCallbackForACallerThatIsGone) {
  worker_->Later([] { FAIL() << "later"; });
  (void)worker_->Within(0ms, [] { FAIL() << "late"; });
  worker_->Ask([] { return 1; }, [](int) { FAIL() << "answered"; });
  worker_.reset();
  loop_->run_for(10ms);
}

}  // namespace
}  // namespace carma::daemon
