#include "gpu/window.h"

#include <gtest/gtest.h>

#include <vector>

namespace carma::gpu {
namespace {

struct Point {
  int at_s;
  std::optional<double> sm_active;
};

struct Case {
  const char* name;
  std::vector<Point> points;
  int expected_from_s;
  std::optional<double> expected;
};

TEST(Window, TimeWeightedMeanOverItsLength) {
  const Case cases[] = {
      {"a single sample stands for itself", {{5, 0.7}}, 5, 0.7},
      {"the first sample only marks the start", {{0, 1.0}, {10, 0.2}}, 0, 0.2},
      {"longer spans weigh more", {{0, {}}, {10, 0.2}, {40, 0.6}}, 0, 0.5},
      {"what is older than a window is cut off", {{0, 0.0}, {50, 1.0}, {100, 0.5}}, 40, 7.0 / 12},
      {"a sample that said nothing empties the mean", {{0, 0.1}, {10, {}}, {20, 0.3}}, 0, {}},
      {"the gap is forgotten when it has left", {{0, 0.1}, {10, {}}, {80, 0.3}}, 20, 0.3},
      {"old news are ignored", {{10, 0.1}, {20, 0.4}, {15, 0.9}, {20, 0.9}}, 10, 0.4},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Window window(std::chrono::seconds(60));
    for (const Point& p : c.points) {
      Reading reading;
      reading.taken = base::FromMs(p.at_s * 1000);
      reading.sm_active = p.sm_active;
      window.Add(reading);
    }
    EXPECT_EQ(window.from(), base::FromMs(c.expected_from_s * 1000));
    ASSERT_EQ(window.SmActive().has_value(), c.expected.has_value());
    EXPECT_NEAR(window.SmActive().value_or(0), c.expected.value_or(0), 1e-12);
  }
}

TEST(Window, EmptyAfterClear) {
  Window window(std::chrono::seconds(60));
  EXPECT_TRUE(window.empty());
  EXPECT_FALSE(window.SmActive());
  window.Add({.taken = base::FromMs(1)});
  EXPECT_FALSE(window.empty());
  window.Clear();
  EXPECT_TRUE(window.empty());
}

}  // namespace
}  // namespace carma::gpu
