#include "gpu/window.h"

#include <gtest/gtest.h>

#include <cmath>
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

TEST(Window, ComputesTheTimeWeightedMeanOverItsLength) {
  const Case cases[] = {
      {"a single sample is used directly", {{5, 0.7}}, 5, 0.7},
      {"the first sample only marks the start", {{0, 1.0}, {10, 0.2}}, 0, 0.2},
      {"longer spans weigh more", {{0, {}}, {10, 0.2}, {40, 0.6}}, 0, 0.5},
      {"parts older than the window are cut off", {{0, 0.0}, {50, 1.0}, {100, 0.5}}, 40, 7.0 / 12},
      {"a sample without a value empties the mean", {{0, 0.1}, {10, {}}, {20, 0.3}}, 0, {}},
      {"a gap outside the window is forgotten", {{0, 0.1}, {10, {}}, {80, 0.3}}, 20, 0.3},
      {"late samples are ignored", {{10, 0.1}, {20, 0.4}, {15, 0.9}, {20, 0.9}}, 10, 0.4},
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

TEST(Window, AveragesUtilisationSeparately) {
  Window window(std::chrono::seconds(60));
  EXPECT_FALSE(window.Utilization());
  window.Add({.taken = base::FromMs(0), .utilization = 1.0});
  window.Add({.taken = base::FromMs(10'000), .utilization = 0.2});
  window.Add({.taken = base::FromMs(40'000), .utilization = 0.6});
  EXPECT_NEAR(window.Utilization().value(), 0.5, 1e-12);
  EXPECT_FALSE(window.SmActive());
}

Window Filled(const std::vector<Point>& points) {
  Window window(std::chrono::seconds(60));
  for (const Point& p : points)
    window.Add({.taken = base::FromMs(p.at_s * 1000), .sm_active = p.sm_active});
  return window;
}

TEST(Window, ReportsThe95thPercentile) {
  const struct {
    const char* name;
    std::vector<Point> points;
    std::optional<double> expected;
  } cases[] = {
      {"nothing", {}, {}},
      {"a single sample is used directly", {{5, 0.7}}, 0.7},
      {"a short peak does not count", {{0, {}}, {38, 0.2}, {40, 0.9}}, 0.2},
      {"a longer peak does", {{0, {}}, {37, 0.2}, {40, 0.9}}, 0.9},
      {"order does not matter", {{0, {}}, {3, 0.9}, {40, 0.2}}, 0.9},
      {"a gap empties it", {{0, 0.1}, {10, {}}, {20, 0.3}}, {}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(Filled(c.points).SmActiveP95(), c.expected);
  }
}

TEST(Window, TheWeightedMeanFollowsAChange) {
  const std::chrono::seconds tau(10);
  EXPECT_EQ(Filled({}).SmActiveEwma(tau), std::nullopt);
  EXPECT_EQ(Filled({{5, 0.7}}).SmActiveEwma(tau), 0.7);
  EXPECT_EQ(Filled({{0, 0.1}, {10, {}}, {20, 0.3}}).SmActiveEwma(tau), std::nullopt);
  EXPECT_NEAR(*Filled({{0, {}}, {10, 0.4}, {40, 0.4}}).SmActiveEwma(tau), 0.4, 1e-12);
  // The expected mean at one tau after a step from 0 to 1, in a window of four tau.
  const double expected = (1 - std::exp(-1)) / (1 - std::exp(-4));
  EXPECT_NEAR(*Filled({{0, {}}, {30, 0.0}, {40, 1.0}}).SmActiveEwma(tau), expected, 1e-12);
  EXPECT_GT(expected, 0.6);  // while the plain mean is 0.25
}

TEST(Window, EmptyAfterClear) {
  Window window(std::chrono::seconds(60));
  EXPECT_FALSE(window.SmActive());
  window.Add({.taken = base::FromMs(1), .sm_active = 0.5});
  EXPECT_TRUE(window.SmActive());
  window.Clear();
  EXPECT_FALSE(window.SmActive());
}

}  // namespace
}  // namespace carma::gpu
