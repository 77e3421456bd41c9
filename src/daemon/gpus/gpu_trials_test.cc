#include "daemon/gpus/gpu_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "base/fake_clock.h"

namespace carma::daemon {
namespace {

namespace asio = boost::asio;
using ::testing::UnorderedElementsAre;

constexpr core::GpuIndex kFirst{0}, kSecond{1};

class GpuTrialsTest : public ::testing::Test {
 protected:
  GpuTrialsTest() {
    trials_ = std::make_unique<GpuTrials>(
        loop_, clock_, std::vector<std::string>{"GPU-a", "GPU-b"},
        [this](const std::string& uuid) -> std::string {
          ++tries_;
          return broken_ && uuid == "GPU-b" ? "broken" : "";
        },
        GpuTrials::Actions{.hold = [this](core::GpuIndex gpu,
                                          bool held) { Note(held ? "hold" : "release", gpu, ""); },
                           .found =
                               [this](core::GpuIndex gpu, const std::string& why) {
                                 Note("found", gpu, why);
                                 known_[gpu] = why;
                               },
                           .known = [this](core::GpuIndex gpu) { return known_[gpu]; }});
  }
  void Note(const std::string& what, core::GpuIndex gpu, const std::string& why) {
    seen_.push_back(what + " " + std::to_string(core::Number(gpu)) +
                    (why.empty() ? "" : " " + why));
  }
  // Requests a trial and runs the loop until there is an answer.
  std::string Ask(const std::vector<core::GpuIndex>& gpus) {
    std::optional<std::string> answer;
    trials_->Ask(gpus, [&](const std::string& why) { answer = why; });
    while (!answer) loop_->run_one_for(std::chrono::seconds(30));
    return *answer;
  }

  std::shared_ptr<asio::io_context> loop_ = std::make_shared<asio::io_context>(1);
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(*loop_);
  base::FakeClock clock_{base::FromMs(1'000'000)};
  std::atomic<bool> broken_ = true;
  std::atomic<int> tries_ = 0;
  std::map<core::GpuIndex, std::string> known_;
  std::vector<std::string> seen_;
  std::unique_ptr<GpuTrials> trials_;
};

TEST_F(GpuTrialsTest, AWorkingGpuIsNotTriedAgainForEveryScript) {
  broken_ = false;
  EXPECT_EQ(Ask({kFirst}), "");
  while (seen_.size() < 6) loop_->run_one_for(std::chrono::seconds(30));
  EXPECT_EQ(Ask({kFirst}), "");
  EXPECT_EQ(Ask({kSecond}), "");
  EXPECT_EQ(tries_, 2);
  EXPECT_THAT(seen_, UnorderedElementsAre("hold 0", "hold 1", "found 0", "release 0", "found 1",
                                          "release 1"));
}

TEST_F(GpuTrialsTest, TheOtherGpusAreTriedBeforeTheirTasksFail) {
  EXPECT_EQ(Ask({kFirst}), "");
  while (seen_.size() < 6) loop_->run_one_for(std::chrono::seconds(30));
  EXPECT_EQ(known_[kSecond], "broken");
  EXPECT_EQ(Ask({kSecond}), "broken");
  EXPECT_EQ(tries_, 2);
}

TEST_F(GpuTrialsTest, ABrokenGpuIsReportedAndRemembered) {
  EXPECT_EQ(Ask({kFirst, kSecond}), "broken");
  EXPECT_THAT(seen_, ::testing::IsSupersetOf({"found 0", "found 1 broken", "release 1"}));
  EXPECT_EQ(Ask({kSecond}), "broken");
  EXPECT_EQ(tries_, 2);
  known_[kSecond].clear();
  broken_ = false;
  EXPECT_EQ(Ask({kSecond}), "");
  EXPECT_EQ(tries_, 3);
}

}  // namespace
}  // namespace carma::daemon
