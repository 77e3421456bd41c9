#include "daemon/loop/serial_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;

TEST(SerialExecutor, TheNextCallBeginsWhenNoHoldIsLeft) {
  const auto line = std::make_shared<SerialExecutor>();
  std::vector<int> begun;
  SerialExecutor::Hold held;
  const auto ask = [&](int number) {
    line->Ask([&, number](SerialExecutor::Hold hold) {
      begun.push_back(number);
      held = std::move(hold);
    });
  };
  ask(1);
  EXPECT_THAT(begun, ElementsAre(1)) << "it runs immediately";
  ask(2);
  EXPECT_EQ(line->waiting(), 1U);
  SerialExecutor::Hold copy = std::exchange(held, nullptr);
  EXPECT_THAT(begun, ElementsAre(1));
  copy.reset();
  EXPECT_THAT(begun, ElementsAre(1, 2));
}

TEST(SerialExecutor, CallsThatEndAtOnceDelayNoOthers) {
  const auto line = std::make_shared<SerialExecutor>();
  int over = 0;
  for (int i = 0; i < 3; ++i) line->Ask([&](const SerialExecutor::Hold&) { ++over; });
  EXPECT_EQ(over, 3);
}

TEST(SerialExecutor, AHoldMayOutliveTheExecutor) {
  auto line = std::make_shared<SerialExecutor>();
  SerialExecutor::Hold held;
  line->Ask([&](SerialExecutor::Hold hold) { held = std::move(hold); });
  line->Ask([](const SerialExecutor::Hold&) { FAIL(); });
  line.reset();
  held.reset();
}

}  // namespace
}  // namespace carma::daemon
