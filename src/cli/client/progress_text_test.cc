#include "cli/client/task_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::cli {
namespace {

constexpr std::int64_t kTextNow = 1'772'000'000'000;

task::ProgressReport Report() {
  return {.phase = "train",
          .unit = "step",
          .done = 120,
          .total = 1000,
          .rate_per_s = 2.125,
          .loss = 0.4123,
          .epoch = 3,
          .fraction = 0.4299,
          .ends_ms = kTextNow + 4'200'000};
}

TEST(ProgressText, IsShortInLists) {
  EXPECT_EQ(ProgressBrief(std::nullopt, kTextNow), "-");
  task::ProgressReport report = Report();
  EXPECT_EQ(ProgressBrief(report, kTextNow), "42% 1:10:00");
  report.ends_ms.reset();
  EXPECT_EQ(ProgressBrief(report, kTextNow), "42%");
  report.fraction.reset();
  EXPECT_EQ(ProgressBrief(report, kTextNow), "12% of epoch 3");
  report.epoch.reset();
  EXPECT_EQ(ProgressBrief(report, kTextNow), "12% of steps");
  report.total.reset();
  EXPECT_EQ(ProgressBrief(report, kTextNow), "120 steps");
}

TEST(ProgressText, ShowsAllThatIsKnown) {
  task::ProgressReport report = Report();
  EXPECT_EQ(ProgressSentence(report, kTextNow),
            "43.0% done, about 1:10:00 left; training, epoch 3, step 120 of 1000, 2.12 per second, "
            "loss 0.4123");
  report = {.phase = "train", .unit = "epoch", .done = 5, .total = 5, .epoch = 5, .fraction = 1};
  EXPECT_EQ(ProgressSentence(report, kTextNow), "100.0% done; training, epoch 5 of 5");
  report = {.phase = "eval", .unit = "iter", .done = 5};
  EXPECT_EQ(ProgressSentence(report, kTextNow), "evaluation, iter 5");
}

}  // namespace
}  // namespace carma::cli
