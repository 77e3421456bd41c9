#include "estimate/amounts.h"

#include <gtest/gtest.h>

#include <vector>

namespace carma::estimate {
namespace {

TEST(Interpolate, PredictsFromOtherBatches) {
  const std::vector<Sighting> line{{8, 3'000}, {16, 5'000}, {32, 9'000}};
  const struct {
    const char* name;
    std::vector<Sighting> seen;
    double amount;
    std::int64_t point_mib;  // 0: no interpolation expected
    bool between;
  } cases[] = {
      {"between two", line, 24, 7'000, true},
      {"a measured amount", line, 16, 5'000, true},
      {"above", line, 64, 17'000, false},
      {"below", line, 4, 2'000, false},
      {"in any order", {{32, 9'000}, {8, 3'000}, {16, 5'000}}, 24, 7'000, true},
      {"the highest per amount", {{8, 3'000}, {8, 3'400}, {16, 5'000}}, 8, 3'400, true},
      {"steepest slope above the largest", {{1, 4'000}, {8, 4'100}, {16, 5'000}}, 24, 5'900, false},
      {"a larger amount never needs less", {{8, 3'000}, {16, 2'900}}, 12, 3'000, true},
      {"one amount does not define a line", {{8, 3'000}, {8, 3'100}}, 16, 0, false},
      {"too far above", line, 129, 0, false},
      {"too far below", line, 1.9, 0, false},
      {"out-of-memory runs are not points", {{8, 3'000}, {16, 5'000, true}}, 32, 0, false},
      {"but they set a lower bound", {{4, 2'000}, {8, 3'000}, {16, 8'000, true}}, 32, 9'000, false},
      {"nothing", {}, 8, 0, false},
  };
  for (const auto& each : cases) {
    const auto answer = Interpolate(each.seen, each.amount);
    ASSERT_EQ(answer.has_value(), each.point_mib > 0) << each.name;
    if (!answer) continue;
    EXPECT_EQ(answer->point_mib, each.point_mib) << each.name;
    EXPECT_EQ(answer->between, each.between) << each.name;
    EXPECT_GE(answer->bound_mib, answer->point_mib) << each.name;
  }
}

TEST(Interpolate, WidensTheBoundWithDistance) {
  const std::vector<Sighting> line{{8, 3'000}, {16, 5'000}};
  const auto share = [&](double amount) {
    const auto answer = Interpolate(line, amount);
    return static_cast<double>(answer->bound_mib) / static_cast<double>(answer->point_mib);
  };
  const std::vector<Sighting> more{{4, 2'000}, {8, 3'000}, {16, 5'000}, {32, 9'000}};
  EXPECT_LT(Interpolate(more, 16)->bound_mib, Interpolate(line, 16)->bound_mib) << "more evidence";
  EXPECT_LT(share(16), share(24));
  EXPECT_LT(share(24), share(60));
  EXPECT_LE(Interpolate(line, 12)->bound_mib, 5'600) << "at most the bound at 16";
}

}  // namespace
}  // namespace carma::estimate
