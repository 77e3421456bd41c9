#include "core/books/settling.h"

#include <gtest/gtest.h>

namespace carma::core {
namespace {

Time AtMs(std::int64_t ms) {
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
      {"the window begins when the task was first seen", 500, AtMs(500), true},
      {"the window begins earlier", 499, AtMs(500), false},
      {"not seen yet", 900, std::nullopt, false},
  };
  for (const Case& c : cases) {
    const Resident resident{.launched = AtMs(400), .first_seen = c.first_seen};
    EXPECT_EQ(HasSettled({.taken = AtMs(1'000), .window_from = AtMs(c.window_from_ms)},
                         {&resident, 1}, AtMs(1'000), Duration{1'000}),
              c.settled)
        << c.name;
  }
}

TEST(Settling, StopsWaitingForATaskThatNeverAppears) {
  const Resident resident{.launched = AtMs(400)};
  const GpuSample sample{.taken = AtMs(1'000), .window_from = AtMs(0)};
  EXPECT_FALSE(HasSettled(sample, {&resident, 1}, AtMs(1'399), Duration{1'000}));
  EXPECT_TRUE(HasSettled(sample, {&resident, 1}, AtMs(1'400), Duration{1'000}));
  EXPECT_TRUE(HasSettled(sample, {}, AtMs(400), Duration{1'000})) << "nobody is there";
}

TEST(Settling, StableMemoryShowsTheTaskBeforeTheWindowDoes) {
  const GpuSample sample{.taken = AtMs(60'000), .window_from = AtMs(0)};
  Resident resident{.launched = AtMs(20'000), .first_seen = AtMs(30'000)};
  resident.memory.See(1'000, AtMs(50'000));
  const Settled rising = LookWhetherSettled(sample, {&resident, 1}, {false}, AtMs(60'000), {});
  EXPECT_EQ(rising.by, AtMs(90'000)) << "a full window after the task was first seen";
  resident.memory = {};
  resident.memory.See(1'000, AtMs(45'000));
  const Settled still = LookWhetherSettled(sample, {&resident, 1}, {false}, AtMs(60'000), {});
  EXPECT_EQ(still.by, std::nullopt);
  EXPECT_DOUBLE_EQ(still.share, 0.5) << "half of the window includes the task";
}

TEST(Settling, KnownTasksNeedNotAppear) {
  const GpuSample sample{.taken = AtMs(60'000), .window_from = AtMs(0)};
  const Resident unseen{.launched = AtMs(59'000)};
  const auto look = [&](bool known) {
    return LookWhetherSettled(sample, {&unseen, 1}, {known}, AtMs(60'000), Duration{180'000});
  };
  EXPECT_EQ(look(true).by, std::nullopt);
  EXPECT_DOUBLE_EQ(look(true).share, 1);
  EXPECT_EQ(look(false).by, AtMs(239'000));
}

}  // namespace
}  // namespace carma::core
