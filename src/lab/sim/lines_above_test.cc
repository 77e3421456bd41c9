#include "lab/sim/lines_above.h"

#include <gtest/gtest.h>

#include "core/values/task.h"

namespace carma::sim {
namespace {

using base::Duration;
using core::Time;

constexpr std::uint32_t kAda = 1, kBob = 2;

std::vector<std::uint64_t> NumbersOf(const LinesAbove& lines) {
  std::vector<std::uint64_t> numbers;
  for (const LinesAbove::Waiting& each : lines.First(10, Time{})) numbers.push_back(each.number);
  return numbers;
}

void Fill(LinesAbove& lines) {
  for (std::uint64_t number = 1; number <= 3; ++number)
    lines.Add({.number = number, .uid = kAda, .rate = 1}, "ada");
  for (std::uint64_t number = 4; number <= 5; ++number)
    lines.Add({.number = number, .uid = kBob, .rate = 1}, "bob");
}

TEST(LinesAbove, FirstInFirstOut) {
  LinesAbove lines(core::QueueOrder::kFifo, {});
  Fill(lines);
  EXPECT_EQ(NumbersOf(lines), (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(lines.First(2, Time{}).size(), 2u);
  lines.Remove(kAda, 1);
  lines.Add({.number = 1, .uid = kAda}, "ada");  // the task returns to its old position
  EXPECT_EQ(NumbersOf(lines).front(), 1u);
  for (std::uint64_t number = 1; number <= 5; ++number) {
    lines.Remove(number <= 3 ? kAda : kBob, number);
    EXPECT_EQ(lines.size(), 5 - number);
  }
  EXPECT_TRUE(lines.empty());
}

TEST(LinesAbove, UsersTakeTurnsByTheirUsage) {
  LinesAbove lines(core::QueueOrder::kFair, {});
  Fill(lines);
  EXPECT_EQ(NumbersOf(lines), (std::vector<std::uint64_t>{1, 4, 2, 5, 3}));
  // Ada holds two GPUs. Each of them counts as if it were held for another hour.
  for (const std::uint64_t id : {100, 101})
    lines.Take({.id = core::TaskId{id}, .request = core::TaskRequest{.uid = kAda}}, 1, Time{});
  EXPECT_EQ(NumbersOf(lines), (std::vector<std::uint64_t>{4, 5, 1, 2, 3}));
  lines.Release(core::TaskId{100}, Time{});
  EXPECT_EQ(lines.taking(), 1u);
  // Bob's weight is 4.
  core::FairRules rules;
  rules.weights = {{"bob", 4}};
  LinesAbove weighted(core::QueueOrder::kFair, rules);
  Fill(weighted);
  EXPECT_EQ(NumbersOf(weighted), (std::vector<std::uint64_t>{1, 4, 5, 2, 3}));
}

}  // namespace
}  // namespace carma::sim
