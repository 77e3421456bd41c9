#include "task/progress/tracker.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::task {
namespace {

constexpr std::int64_t kStart = 1'772'000'000'000;

std::string Bar(int done, int total, const std::string& label = "") {
  return fmt::format("\r{} 10%|#    | {}/{} [00:10<00:50,  2.00it/s]", label, done, total);
}

TEST(ProgressTracker, ReportsChanges) {
  ProgressTracker tracker;
  EXPECT_FALSE(tracker.NextLookMs());
  tracker.Take(1, Bar(10, 110));
  EXPECT_LE(tracker.NextLookMs().value(), kStart);
  const auto report = tracker.Look(kStart);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->done, 10);
  EXPECT_EQ(report->total, 110);
  EXPECT_EQ(report->ends_ms, kStart + 50'000);
  EXPECT_FALSE(tracker.NextLookMs());
  tracker.Take(1, Bar(10, 110));
  EXPECT_FALSE(tracker.Look(kStart + 5'000)) << "the same bar";
}

TEST(ProgressTracker, ExpectsTheEndBySpeedOfTheWholeRun) {
  ProgressTracker tracker;
  std::optional<ProgressReport> report;
  for (int i = 0; i <= 30; ++i) {
    tracker.Take(1, Bar(i, 100));
    report = tracker.Look(kStart + i * 10'000);  // 0.1 steps per second, whatever the bar prints
  }
  EXPECT_EQ(report->ends_ms, kStart + 100 * 10'000);
}

TEST(ProgressTracker, KeepsTheExpectedEndDuringAnEvaluation) {
  ProgressTracker tracker;
  for (int i = 0; i <= 30; ++i) {
    tracker.Take(1, Bar(i, 100, "train"));
    tracker.Look(kStart + i * 10'000);
  }
  tracker.Take(1, Bar(1, 9, "Validation"));
  const auto report = tracker.Look(kStart + 400'000);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->phase, "eval");
  EXPECT_EQ(report->fraction, 0.3);
  EXPECT_EQ(report->ends_ms, kStart + 1'000'000);
}

TEST(ProgressTracker, ContinuesCountingAfterACheckpoint) {
  ProgressTracker tracker;
  for (int i = 50; i <= 60; ++i) {
    tracker.Take(1, Bar(i, 100));
    tracker.Look(kStart + (i - 50) * 10'000);
  }
  tracker.Take(1, Bar(61, 100));
  const auto report = tracker.Look(kStart + 110'000);
  EXPECT_EQ(report->fraction, 0.61);
  EXPECT_EQ(report->ends_ms, kStart + 500'000) << "estimated from the speed of this run";
}

TEST(ProgressTracker, ReadsTheEndOfAGigabyteWithoutALine) {
  ProgressTracker tracker;
  const std::string piece(65'536, 'x');
  for (int i = 0; i < 16'000; ++i) tracker.Take(0, piece);
  tracker.Take(0, "1234/99999 [00:10<00:50,  2.00it/s]\nstep 60/100\n");
  EXPECT_EQ(tracker.Look(kStart)->done, 60);
}

TEST(ProgressTracker, ChecksRarelyAfterAWhile) {
  ProgressTracker tracker;
  for (const std::int64_t age_ms : {0, 1'000, 3'600'000}) {
    tracker.Take(1, Bar(1, 10));
    tracker.Look(kStart + age_ms);
  }
  tracker.Take(1, Bar(2, 10));
  EXPECT_EQ(tracker.NextLookMs(), kStart + 3'600'000 + ProgressTracker::kLastGapMs);
}

TEST(ProgressTracker, ChecksRarelyHoweverMuchIsPrinted) {
  ProgressTracker tracker;
  int looks = 0;
  for (std::int64_t now_ms = kStart; now_ms < kStart + 3'600'000; now_ms += 50) {
    tracker.Take(0, "\x1b]0;title");
    tracker.Take(1, "\x1b[31m 1/2 [");
    if (*tracker.NextLookMs() > now_ms) continue;
    ++looks;
    EXPECT_FALSE(tracker.Look(now_ms));
  }
  EXPECT_LT(looks, 500) << "mostly in the first minutes, then every ten seconds";
}

TEST(ProgressTracker, ReportsNothingOfTheTextItReads) {
  for (const char* text : {
           "\x1b]0;<b>\aEpoch <b>\x1b[31m 1/2:  50%|<b>  | 50/100 [00:10<00:10,  5.00<b>/s]\n",
           "<script>\x1b[2J step 50/100 loss: 0.5 <b>\n",
           "carma: progress 50/100 loss 0.5<b>\x1b[31m\n",
       }) {
    ProgressTracker tracker;
    tracker.Take(0, text);
    const auto report = tracker.Look(kStart);
    ASSERT_TRUE(report) << text;
    EXPECT_EQ(ToText(*report).find_first_of("<>\x1b"), std::string::npos) << text;
  }
}

TEST(ProgressReport, ParsesBackFromItsText) {
  const ProgressReport report{.phase = "eval",
                              .unit = "step",
                              .done = 5,
                              .total = 10,
                              .loss = -0.5,
                              .fraction = 0.25,
                              .ends_ms = kStart,
                              .changed_ms = kStart - 1};
  const auto back = ParseProgressReport(ToText(report));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, report);
  for (const char* text : {"", "{", R"({"unit":"<b>"})", R"({"phase":"nothing"})"})
    EXPECT_FALSE(ParseProgressReport(text)) << text;
}

TEST(ProgressReport, StallsAfterTenTimesItsLongestStep) {
  const ProgressReport report{.changed_ms = kStart, .longest_step_ms = 120'000};
  EXPECT_FALSE(IsStalled(report, kStart + 1'200'000));
  EXPECT_TRUE(IsStalled(report, kStart + 1'200'001));
  EXPECT_FALSE(IsStalled({.changed_ms = kStart}, kStart + 600'000)) << "not yet over ten minutes";
}

}  // namespace
}  // namespace carma::task
