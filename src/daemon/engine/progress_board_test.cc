#include "daemon/engine/progress_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace carma::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kNowMs = 1'772'000'000'000;
constexpr core::TaskId kReporter{7};

ProgressBoard::Seen Seen(int attempt, bool stalled) {
  return {{kReporter, attempt, true, ""}, {.phase = "train", .unit = "step", .stalled = stalled}};
}

TEST(ProgressBoard, ReadsTheFilesOfShims) {
  const std::string dir = testing::TempDir() + "/progress_board";
  std::filesystem::create_directories(dir);
  std::string text = ToText(task::ProgressReport{
      .phase = "train", .unit = "step", .done = 5, .changed_ms = kNowMs - 700'000});
  ASSERT_TRUE(base::WriteFileAtomic(dir + "/progress", text + std::string(100, ' ')));
  const std::vector<ProgressBoard::Place> places{{kReporter, 2, true, dir},
                                                 {core::TaskId{8}, 1, false, dir},
                                                 {core::TaskId{9}, 1, true, "/none"}};
  const auto seen = ProgressBoard::Read(places, kNowMs);
  ASSERT_EQ(seen.size(), 2);
  EXPECT_EQ(seen[0].report.done, 5);
  EXPECT_TRUE(seen[0].report.stalled);
  EXPECT_FALSE(seen[1].report.stalled) << "it holds no GPU";
  ASSERT_TRUE(base::WriteFileAtomic(dir + "/progress", "{\"half"));
  EXPECT_THAT(ProgressBoard::Read(places, kNowMs), IsEmpty());
  std::filesystem::remove_all(dir);
}

TEST(ProgressBoard, ReportsAStalledAttemptOnce) {
  ProgressBoard board;
  EXPECT_THAT(board.Take({Seen(1, false)}), IsEmpty());
  EXPECT_THAT(board.Take({Seen(1, true)}), ElementsAre(kReporter));
  EXPECT_THAT(board.Take({Seen(1, true)}), IsEmpty());
  EXPECT_THAT(board.Take({Seen(2, true)}), ElementsAre(kReporter)) << "another attempt";
}

TEST(ProgressBoard, ShowsTheRemainingTimeOfTasksThatProgress) {
  ProgressBoard board;
  ProgressBoard::Seen seen = Seen(1, false);
  EXPECT_THAT((board.Take({seen}), board.Left(kNowMs).left), IsEmpty()) << "its end is unknown";
  seen.report.done = 5;
  seen.report.ends_ms = kNowMs + 60'000;
  board.Take({seen});
  EXPECT_THAT(board.Left(kNowMs).left, ElementsAre(std::pair(kReporter, core::Duration{60'000})));
  board.Take({seen});
  EXPECT_THAT(board.Left(kNowMs).left, IsEmpty()) << "no progress since the last reading";
}

TEST(ProgressBoard, ConvertsTheTimesOfShimsToASimulatedServersClock) {
  constexpr std::int64_t kServerMs = kNowMs + 86'400'000;
  ProgressBoard::Seen seen = Seen(1, false);
  seen.report.changed_ms = kNowMs - 1'000;
  seen.report.ends_ms = kNowMs + 60'000;
  ProgressBoard board;
  board.Take({seen}, {.system_ms = kNowMs, .server_ms = kServerMs, .scale = 40});
  EXPECT_EQ(board.Find(kReporter, 1)->changed_ms, kServerMs - 40'000);
  EXPECT_THAT(board.Left(kServerMs).left,
              ElementsAre(std::pair(kReporter, core::Duration{2'400'000})));
}

TEST(ProgressBoard, ForgetsTasksThatHaveEnded) {
  ProgressBoard board;
  board.Take({Seen(1, false)});
  EXPECT_NE(board.Find(kReporter, 1), nullptr);
  EXPECT_EQ(board.Find(kReporter, 2), nullptr);
  board.Take({});
  EXPECT_EQ(board.Find(kReporter, 1), nullptr);
}

}  // namespace
}  // namespace carma::daemon
