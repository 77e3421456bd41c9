#include "daemon/loop/one_by_one.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;

TEST(OneByOne, TheNextBeginsWhenNobodyHoldsTheOneBefore) {
  const auto line = std::make_shared<OneByOne>();
  std::vector<int> begun;
  OneByOne::Hold held;
  const auto ask = [&](int number) {
    line->Ask([&, number](OneByOne::Hold hold) {
      begun.push_back(number);
      held = std::move(hold);
    });
  };
  ask(1);
  EXPECT_THAT(begun, ElementsAre(1)) << "at once";
  ask(2);
  EXPECT_EQ(line->waiting(), 1U);
  OneByOne::Hold copy = std::exchange(held, nullptr);
  EXPECT_THAT(begun, ElementsAre(1));
  copy.reset();
  EXPECT_THAT(begun, ElementsAre(1, 2));
}

TEST(OneByOne, WhoIsOverAtOnceHoldsNobodyUp) {
  const auto line = std::make_shared<OneByOne>();
  int over = 0;
  for (int i = 0; i < 3; ++i) line->Ask([&](const OneByOne::Hold&) { ++over; });
  EXPECT_EQ(over, 3);
}

TEST(OneByOne, WhatIsHeldLongerThanTheLineIsHarmless) {
  auto line = std::make_shared<OneByOne>();
  OneByOne::Hold held;
  line->Ask([&](OneByOne::Hold hold) { held = std::move(hold); });
  line->Ask([](const OneByOne::Hold&) { FAIL(); });
  line.reset();
  held.reset();
}

}  // namespace
}  // namespace carma::daemon
