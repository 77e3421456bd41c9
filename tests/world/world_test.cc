// Runs the randomised world for a minute and checks that it catches planted bugs. With arguments:
//   world_test --seeds 1000 [--steps 10000] [--first 1]    before a release
//   world_test --replay FILE                               replays a shrunk failure
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "tests/world/world.h"

namespace carma::world {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSteps = 400;

std::string Told(std::uint64_t seed, const Violation& violation, const std::vector<Step>& steps) {
  return fmt::format("seed {}, step {}: {}\n# shrunk:\n{}", seed, violation.step, violation.what,
                     ToText(Shrunk(steps)));
}

TEST(World, KeepsItsPromisesForHalfAMinute) {
  const auto end = Clock::now() + std::chrono::seconds(30);
  std::uint64_t seed = 1;
  for (; Clock::now() < end; ++seed) {
    const std::vector<Step> steps = StepsOf(seed, kSteps);
    const auto violation = Play(steps);
    ASSERT_FALSE(violation) << Told(seed, *violation, steps);
  }
  fmt::print("{} seeds of {} steps\n", seed - 1, kSteps);
}

class Planted : public ::testing::TestWithParam<std::pair<Plant, const char*>> {};

TEST_P(Planted, IsFoundWithinAMinuteAndShrunk) {
  const auto end = Clock::now() + std::chrono::seconds(60);
  for (std::uint64_t seed = 1; Clock::now() < end; ++seed) {
    const std::vector<Step> steps = StepsOf(seed, kSteps);
    if (!Play(steps, GetParam().first)) continue;
    const std::vector<Step> few = Shrunk(steps, GetParam().first);
    EXPECT_LE(few.size(), 30U) << ToText(few);
    EXPECT_TRUE(Play(few, GetParam().first));
    EXPECT_FALSE(Play(few)) << "the same steps without the deliberate mistake must succeed";
    EXPECT_EQ(StepsFromText(ToText(few)).value(), few);
    return;
  }
  FAIL() << "not found";
}

INSTANTIATE_TEST_SUITE_P(Faults, Planted,
                         ::testing::Values(std::pair(Plant::kLostWakeUp, "LostWakeUp"),
                                           std::pair(Plant::kDoubleStart, "DoubleStart"),
                                           std::pair(Plant::kKeptClaim, "KeptClaim"),
                                           std::pair(Plant::kFalseReason, "FalseReason"),
                                           std::pair(Plant::kSharedFolder, "SharedFolder"),
                                           std::pair(Plant::kLostTask, "LostTask")),
                         [](const auto& each) { return each.param.second; });

int Run(const std::map<std::string, std::string>& arguments) {
  const auto number = [&](const char* name, std::int64_t fallback) {
    const auto at = arguments.find(name);
    return static_cast<std::uint64_t>(
        at == arguments.end() ? fallback : base::ParseInt(at->second).value_or(fallback));
  };
  if (const auto file = arguments.find("--replay"); file != arguments.end()) {
    const auto text = base::ReadFile(file->second, 64 << 20);
    const auto steps = text ? StepsFromText(*text) : std::unexpected(text.error());
    if (!steps) return fmt::print("{}\n", steps.error().message), 2;
    const auto violation = Play(*steps);
    fmt::print("{}\n", violation ? violation->what : "no violation");
    return violation ? 1 : 0;
  }
  const std::uint64_t first = number("--first", 1), seeds = number("--seeds", 100);
  const auto steps = static_cast<std::size_t>(number("--steps", 10'000));
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const std::vector<Step> list = StepsOf(seed, steps);
    if (const auto violation = Play(list)) {
      fmt::print("{}", Told(seed, *violation, list));
      return 1;
    }
    if ((seed - first + 1) % 10 != 0) continue;
    fmt::print("{} seeds done\n", seed - first + 1);
    std::fflush(stdout);
  }
  fmt::print("{} seeds of {} steps: no violation\n", seeds, steps);
  return 0;
}

}  // namespace
}  // namespace carma::world

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  carma::base::SetLogLevel(carma::base::LogLevel::kError);
  if (argc == 1) return RUN_ALL_TESTS();
  std::map<std::string, std::string> arguments;
  for (int i = 1; i + 1 < argc; i += 2) arguments[argv[i]] = argv[i + 1];
  return carma::world::Run(arguments);
}
