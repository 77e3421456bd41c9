#include "daemon/engine/line_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::daemon {
namespace {

using base::Duration;
using base::FromMs;
using core::ReasonCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LineMeter, ShowsHowLongTheHeadWaitedForEachReason) {
  LineMeter meter;
  meter.See(ReasonCode::kNone, FromMs(500));
  meter.See(ReasonCode::kGpuMemory, FromMs(1'000));
  meter.See(ReasonCode::kGpuMemory, FromMs(3'000));
  meter.See(ReasonCode::kWarmUp, FromMs(4'000));
  meter.See(ReasonCode::kGpuMemory, FromMs(9'000));
  meter.See(ReasonCode::kNone, FromMs(10'000));
  using store::LineWait;
  EXPECT_THAT(
      meter.Close(FromMs(60'000)),
      ElementsAre(LineWait{FromMs(1'000), FromMs(60'000), ReasonCode::kGpuMemory, Duration(4'000)},
                  LineWait{FromMs(1'000), FromMs(60'000), ReasonCode::kWarmUp, Duration(5'000)}));
  EXPECT_THAT(meter.Close(FromMs(120'000)), IsEmpty()) << "no task was waiting";
}

TEST(LineMeter, AContinuingWaitIsDividedBetweenRows) {
  LineMeter meter;
  meter.See(ReasonCode::kSmBusy, FromMs(1'000));
  using store::LineWait;
  EXPECT_THAT(
      meter.Close(FromMs(2'000)),
      ElementsAre(LineWait{FromMs(1'000), FromMs(2'000), ReasonCode::kSmBusy, Duration(1'000)}));
  EXPECT_THAT(
      meter.Close(FromMs(5'000)),
      ElementsAre(LineWait{FromMs(2'000), FromMs(5'000), ReasonCode::kSmBusy, Duration(3'000)}));
}

}  // namespace
}  // namespace carma::daemon
