#include "daemon/http/snapshot_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

namespace carma::daemon {
namespace {

namespace asio = boost::asio;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kLongest = std::chrono::seconds(30);

class SnapshotAnswersTest : public ::testing::Test {
 protected:
  void Until(const std::function<bool()>& so) {
    const auto patience = std::chrono::steady_clock::now() + kLongest;
    while (!so() && std::chrono::steady_clock::now() < patience) loop_.run_one_for(kLongest);
    ASSERT_TRUE(so());
  }
  void Open(const SnapshotAnswersOptions& options = {}) {
    answers_ = std::make_unique<SnapshotAnswers>(
        loop_, [this] { return small_; }, options);
  }
  // Requests an answer, and records its text and when it was built.
  void Ask(std::optional<std::uint32_t> uid, const std::string& name, const MakeAnswer& make) {
    answers_->Ask(
        uid,
        [this, name, make]() -> Result<MakeAnswer> {
          begun_.push_back(name);
          return make;
        },
        [this, name](Answer answer) {
          ended_.push_back(name + ": " + (answer ? answer->body : answer.error().message));
        });
  }

  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(loop_);
  bool small_ = false;
  std::vector<std::string> begun_, ended_;
  std::unique_ptr<SnapshotAnswers> answers_;
};

MakeAnswer Says(const std::string& text) {
  return [text] { return api::Response{.body = text}; };
}
MakeAnswer Hangs() {
  return []() -> Answer {
    while (true) ::pause();
  };
}

TEST_F(SnapshotAnswersTest, ACopyAnswersWithTheStateAtItsFork) {
  Open();
  std::string state = "before";
  Ask(1, "a", [&state, daemon = ::getpid()] {
    return api::Response{.status = 201,
                         .body = state + (::getpid() == daemon ? " here" : " apart"),
                         .content_type = "text/plain"};
  });
  Until([&] { return !begun_.empty(); });
  state = "after";
  Until([&] { return !ended_.empty(); });
  EXPECT_THAT(ended_, ElementsAre("a: before apart"));

  const std::string large(3 << 20, 'x');
  Ask(1, "large", Says(large));
  Ask(1, "error", []() -> Answer { return NotFound("no such"); });
  Until([&] { return ended_.size() == 3; });
  EXPECT_EQ(ended_[1], "large: " + large);
  EXPECT_THAT(ended_[2], HasSubstr("no such"));
}

TEST_F(SnapshotAnswersTest, RequestsOfOneUserAreSerialAndUsersAreServedInParallel) {
  Open({.at_once = 2, .waiting = 2, .limit = kLongest});
  Ask(1, "hangs", Hangs());
  Until([&] { return begun_.size() == 1; });
  Ask(1, "waits", Says("1"));
  Ask(1, "waits too", Says("1"));
  Ask(1, "too many", Says("1"));
  EXPECT_THAT(ended_, ElementsAre(HasSubstr("too many: 2 of your requests")));
  Ask(2, "other", Says("2"));
  Ask(std::nullopt, "page", Says("3"));
  Until([&] { return ended_.size() == 3; });
  EXPECT_THAT(begun_, ElementsAre("hangs", "other", "page"));
}

TEST(AskerOf, IsTheUserOfTheConnectionAlsoOverTcp) {
  Call call;
  EXPECT_EQ(AskerOf(call), std::nullopt);
  call.request.counted_as = 7;
  EXPECT_EQ(AskerOf(call), 7U);
  call.request.peer = api::Peer{.uid = 8};
  EXPECT_EQ(AskerOf(call), 8U);
}

TEST_F(SnapshotAnswersTest, ACopyThatHangsOrDiesIsReportedAndDelaysNoOtherRequest) {
  Open({.at_once = 1, .waiting = 4, .limit = std::chrono::milliseconds(500)});
  Ask(1, "hangs", Hangs());
  Ask(1, "dies", []() -> Answer {
    ::raise(SIGKILL);
    return {};
  });
  Ask(2, "good", Says("yes"));
  Until([&] { return ended_.size() == 3; });
  EXPECT_THAT(ended_,
              testing::UnorderedElementsAre(
                  HasSubstr("hangs: the response took too long"),
                  HasSubstr("dies: the process that was preparing the response"), "good: yes"));
}

TEST_F(SnapshotAnswersTest, ACopyHasNoOpenFilesAndEndsWithTheDaemon) {
  Open();
  Ask(1, "files", [] {
    std::size_t open = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
      open += !each.path().empty();
    return api::Response{.body = std::to_string(open)};
  });
  Until([&] { return !ended_.empty(); });
  EXPECT_EQ(ended_.at(0), "files: 5") << "three streams, its pipe, and the folder itself";
  Ask(1, "hangs", Hangs());
  Until([&] { return begun_.size() == 2; });
  answers_.reset();
  EXPECT_EQ(ended_.size(), 1U);
}

TEST_F(SnapshotAnswersTest, AnswersSmallRequestsWithoutACopy) {
  small_ = true;
  Open();
  Ask(1, "a", [daemon = ::getpid()] {
    return api::Response{.body = ::getpid() == daemon ? "here" : "apart"};
  });
  EXPECT_THAT(ended_, ElementsAre("a: here"));
}

}  // namespace
}  // namespace carma::daemon
