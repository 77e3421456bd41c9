#include "daemon/engine/mps_client_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

const MpsClientCheck::Key kTrain{core::TaskId{1}, 1}, kOther{core::TaskId{2}, 1};

TEST(MpsClientCheck, AProcessMissingFromTwoListsBypassesTheServer) {
  MpsClientCheck check;
  check.Seen(kTrain, {10, 11});
  check.Seen(kOther, {20});
  const auto once = check.seen();
  EXPECT_THAT(check.Compare(once, {10, 20}), IsEmpty()) << "it may have only just started";
  EXPECT_THAT(check.outside(), IsEmpty());
  EXPECT_THAT(check.Compare(check.seen(), {10, 20}), ElementsAre(Pair(kTrain, ElementsAre(11))));
  EXPECT_THAT(check.Compare(check.seen(), {10, 20}), IsEmpty()) << "already reported";
  EXPECT_THAT(check.outside(), ElementsAre(Pair(kTrain, ElementsAre(11))));
  EXPECT_THAT(check.Compare(check.seen(), {10, 11, 20}), IsEmpty());
  EXPECT_THAT(check.outside(), IsEmpty()) << "it is a client now";
}

TEST(MpsClientCheck, IgnoresProcessesThatHaveEnded) {
  MpsClientCheck check;
  check.Seen(kTrain, {10});
  const auto before = check.seen();
  check.Compare(before, {});
  check.Seen(kTrain, {});
  EXPECT_THAT(check.Compare(before, {}), IsEmpty());
  check.Seen(kTrain, {10});
  check.Compare(check.seen(), {});
  check.Forget(kTrain);
  EXPECT_THAT(check.Compare(before, {}), IsEmpty());
}

}  // namespace
}  // namespace carma::daemon
