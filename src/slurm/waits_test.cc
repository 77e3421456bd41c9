#include "slurm/waits.h"

#include <gtest/gtest.h>

#include <vector>

namespace carma::slurm {
namespace {

using std::chrono::seconds;

TEST(WaitComments, AreSetForLongWaitsOnceAMinute) {
  WaitComments comments(seconds(10));
  const WaitComments::Moment start{};
  std::vector<WaitingJob> waiting{{10, "(WarmUp) a"}, {11, "(NoGpuFits) b"}};
  EXPECT_FALSE(comments.Next(start, waiting));
  EXPECT_FALSE(comments.Next(start + seconds(9), waiting));
  const auto first = comments.Next(start + seconds(10), waiting);
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, (WaitComments::Comment{10, "carma: waiting for GPUs on %n: (WarmUp) a"}));
  EXPECT_TRUE(IsWaiting(first->text));
  EXPECT_EQ(comments.Next(start + seconds(12), waiting)->job, 11U) << "one at a time";
  EXPECT_FALSE(comments.Next(start + seconds(14), waiting));
  waiting[0].why = "(SmBusy) c";
  EXPECT_FALSE(comments.Next(start + seconds(69), waiting)) << "within the minute";
  EXPECT_EQ(comments.Next(start + seconds(70), waiting)->text,
            "carma: waiting for GPUs on %n: (SmBusy) c");
  EXPECT_FALSE(comments.Next(start + seconds(200), waiting)) << "nothing new";
}

TEST(WaitComments, AreRemovedAfterTheWait) {
  WaitComments comments(seconds(10));
  const WaitComments::Moment start{};
  const std::vector<WaitingJob> waiting{{10, "(WarmUp) a"}}, none;
  comments.Next(start - seconds(10), none);
  comments.Next(start, waiting);
  EXPECT_FALSE(comments.Next(start + seconds(5), none)) << "there was no comment";
  comments.Next(start + seconds(6), waiting);
  ASSERT_TRUE(comments.Next(start + seconds(16), waiting));
  const auto over = comments.Next(start + seconds(36), none);
  ASSERT_TRUE(over);
  EXPECT_EQ(over->job, 10U);
  EXPECT_EQ(over->text, "carma: waited 0:30 for GPUs on %n");
  EXPECT_FALSE(IsWaiting(over->text));
  EXPECT_EQ(WithoutWait(over->text), "");
  EXPECT_FALSE(comments.Next(start + seconds(40), none));
}

TEST(WaitComments, AreRemovedIfTheWaitBeganBeforeARestart) {
  WaitComments comments(seconds(10));
  const WaitComments::Moment start{};
  comments.Next(start, std::vector<WaitingJob>{{10, "(WarmUp) a"}});
  EXPECT_EQ(comments.Next(start + seconds(5), {}),
            (WaitComments::Comment{10, "carma: waited for GPUs on %n", false, true}));
  EXPECT_FALSE(comments.Next(start + seconds(7), {}));
}

TEST(WaitComments, NameTheNodeOnce) {
  EXPECT_EQ(WithNodeName("carma: waiting for GPUs on %n: %n", "n1"),
            "carma: waiting for GPUs on n1: %n");
  EXPECT_EQ(WithNodeName("of an older version", "n1"), "of an older version");
}

TEST(WaitComments, LeaveOtherCommentsAlone) {
  const std::string wait = "carma: waiting for GPUs on n1: (SmBusy) a, retry 9 of 9";
  const std::string retry =
      "carma: out of GPU memory on n1 (claim raised from 1.0G to 2.0G), retry 1 of 3";
  EXPECT_EQ(WithWait("", wait), wait);
  EXPECT_EQ(WithWait("carma: waited 0:30 for GPUs on n0", wait), wait);
  EXPECT_EQ(WithWait(retry, wait), retry + " | " + wait);
  EXPECT_EQ(WithWait(retry + " | " + wait, "carma: waited 0:30 for GPUs on n1"),
            retry + " | carma: waited 0:30 for GPUs on n1");
  EXPECT_EQ(WithoutWait(retry + " | " + wait), retry);
  EXPECT_TRUE(IsWaiting(retry + " | " + wait));
  EXPECT_FALSE(IsWaiting(retry));
  EXPECT_TRUE(IsWaiting(retry + " | " + wait, "n1"));
  EXPECT_FALSE(IsWaiting(retry + " | " + wait, "n"));
  EXPECT_FALSE(IsWaiting(wait, "n2"));
  EXPECT_EQ(WithWait("ada: please leave", wait), std::nullopt);
}

}  // namespace
}  // namespace carma::slurm
