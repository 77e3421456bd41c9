#include "core/books/settling.h"

#include <gtest/gtest.h>

namespace carma::core {
namespace {

Time At(std::int64_t ms) {
  return base::FromMs(ms);
}

TEST(Settling, TheWindowMustBeginAfterTheTaskWasSeen) {
  struct Case {
    const char* name;
    std::int64_t window_from_ms;
    std::optional<Time> first_seen;
    bool settled;
  };
  const Case cases[] = {
      {"the window begins when the task was first seen", 500, At(500), true},
      {"the window begins before that", 499, At(500), false},
      {"not seen yet", 900, std::nullopt, false},
  };
  for (const Case& c : cases) {
    const Resident resident{.launched = At(400), .first_seen = c.first_seen};
    EXPECT_EQ(HasSettled({.taken = At(1'000), .window_from = At(c.window_from_ms)}, {&resident, 1},
                         At(1'000), Duration{1'000}),
              c.settled)
        << c.name;
  }
}

TEST(Settling, StopsWaitingForATaskThatNeverAppears) {
  const Resident resident{.launched = At(400)};
  const GpuSample sample{.taken = At(1'000), .window_from = At(0)};
  EXPECT_FALSE(HasSettled(sample, {&resident, 1}, At(1'399), Duration{1'000}));
  EXPECT_TRUE(HasSettled(sample, {&resident, 1}, At(1'400), Duration{1'000}));
  EXPECT_TRUE(HasSettled(sample, {}, At(400), Duration{1'000})) << "nobody is there";
}

TEST(Settling, StableMemoryShowsTheTaskBeforeTheWindowDoes) {
  const GpuSample sample{.taken = At(60'000), .window_from = At(0)};
  Resident resident{.launched = At(20'000), .first_seen = At(30'000)};
  resident.memory.See(1'000, At(50'000));
  const Settled rising = LookWhetherSettled(sample, {&resident, 1}, {false}, At(60'000), {});
  EXPECT_EQ(rising.by, At(90'000)) << "a full window after the task was first seen";
  resident.memory = {};
  resident.memory.See(1'000, At(45'000));
  const Settled still = LookWhetherSettled(sample, {&resident, 1}, {false}, At(60'000), {});
  EXPECT_EQ(still.by, std::nullopt);
  EXPECT_DOUBLE_EQ(still.share, 0.5) << "half of the window includes the task";
}

TEST(Settling, KnownTasksNeedNotAppear) {
  const GpuSample sample{.taken = At(60'000), .window_from = At(0)};
  const Resident unseen{.launched = At(59'000)};
  const auto look = [&](bool known) {
    return LookWhetherSettled(sample, {&unseen, 1}, {known}, At(60'000), Duration{180'000});
  };
  EXPECT_EQ(look(true).by, std::nullopt);
  EXPECT_DOUBLE_EQ(look(true).share, 1);
  EXPECT_EQ(look(false).by, At(239'000));
}

}  // namespace
}  // namespace carma::core
