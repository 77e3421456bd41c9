#include "report/svg.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace carma::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> Texts(const std::vector<Tick>& ticks) {
  std::vector<std::string> texts;
  for (const Tick& tick : ticks) texts.push_back(tick.text);
  return texts;
}

TEST(Svg, EscapesUntrustedNames) {
  EXPECT_EQ(Escape("<b a=\"1\" c='2'>&\n\x01"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;??");
  Svg svg(10, 10, "\"><script>");
  svg.Rect(0, 0, 1, 1, "task", "</title><script>");
  svg.Text(0, 0, "<script>", "label");
  EXPECT_THAT(std::move(svg).Finish(), Not(HasSubstr("<script")));
}

TEST(Svg, CoordinatesAreShortAndFinite) {
  EXPECT_EQ(Coordinate(12.5), "12.5");
  EXPECT_EQ(Coordinate(3), "3");
  EXPECT_EQ(Coordinate(-0.001), "0");
  EXPECT_EQ(Coordinate(kNan), "0");
  EXPECT_EQ(Coordinate(std::numeric_limits<double>::infinity()), "0");
}

TEST(Ticks, AreRound) {
  EXPECT_THAT(Texts(NiceTicks(39.6, 4)), ElementsAre("0", "10", "20", "30"));
  EXPECT_THAT(Texts(NiceTicks(1, 5)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(Texts(NiceTicks(275, 2)), ElementsAre("0", "100", "200"));
  EXPECT_THAT(Texts(NiceTicks(45, 2)), ElementsAre("0", "20", "40"));
  EXPECT_THAT(Texts(NiceTicks(0, 5)), ElementsAre("0"));
  EXPECT_THAT(Texts(NiceTicks(kNan, 5)), ElementsAre("0"));
}

TEST(Ticks, OfTimeNameTheirUnit) {
  EXPECT_THAT(Texts(TimeTicks(45, 5)), ElementsAre("0", "10 s", "20 s", "30 s", "40 s"));
  EXPECT_THAT(Texts(TimeTicks(5'400, 3)), ElementsAre("0", "30 min", "60 min", "90 min"));
  EXPECT_THAT(Texts(TimeTicks(38'370, 6)), ElementsAre("0", "2 h", "4 h", "6 h", "8 h", "10 h"));
  EXPECT_THAT(Texts(TimeTicks(400'000, 8)), ElementsAre("0", "1 d", "2 d", "3 d", "4 d"));
  EXPECT_LE(TimeTicks(86'400.0 * 10'000, 8).size(), 9u);
}

TEST(Thin, KeepsExtremesGapsAndEnds) {
  std::vector<XY> curve;
  for (int i = 0; i < 100'000; ++i)
    curve.push_back({static_cast<double>(i), std::sin(i / 5'000.0)});
  curve[31'234].y = 17;
  curve[55'555].y = -9;
  curve[70'000].y = kNan;
  const std::vector<XY> thin = Thin(curve, 400);
  EXPECT_LE(thin.size(), 400u);
  const auto has = [&](double x) {
    return std::ranges::any_of(thin, [x](const XY& each) { return each.x == x; });
  };
  for (const double x : {0.0, 31'234.0, 55'555.0, 70'000.0, 99'999.0}) EXPECT_TRUE(has(x)) << x;
  EXPECT_TRUE(
      std::is_sorted(thin.begin(), thin.end(), [](const XY& a, const XY& b) { return a.x < b.x; }));
  EXPECT_EQ(Thin({}, 400).size(), 0u);
  const std::vector<XY> standing(1'000, XY{5, 1});
  EXPECT_LE(Thin(standing, 400).size(), 400u);
}

std::string TextOf(const std::vector<Tick>& ticks) {
  std::string text;
  for (const Tick& tick : ticks) text += fmt::format("{:g}={} ", tick.at, tick.text);
  return text;
}

TEST(Ticks, OnAClockAreRoundTimesOfDay) {
  constexpr double kTwoOClock = 1'795'442'400;  // 2026-11-23 14:00:00
  struct Case {
    const char* name;
    double from_s;
    double length_s;
    const char* ticks;
  };
  const Case cases[] = {
      {"an hour", kTwoOClock, 3'600, "0=14:00 1200=14:20 2400=14:40 3600=15:00 "},
      {"a start between ticks", kTwoOClock + 130, 3'600, "1070=14:20 2270=14:40 3470=15:00 "},
      {"seconds", kTwoOClock, 50, "0=14:00:00 30=14:00:30 "},
      {"across midnight", kTwoOClock + 6 * 3'600, 8 * 3'600,
       "0=20:00 7200=22:00 14400=24 Nov 21600=02:00 28800=04:00 "},
      {"days", kTwoOClock, 3.0 * 86'400, "36000=24 Nov 122400=25 Nov 208800=26 Nov "},
      {"nothing", kTwoOClock, 0, ""}};
  for (const Case& each : cases)
    EXPECT_EQ(TextOf(ClockTicks(each.from_s, each.length_s, 4)), each.ticks) << each.name;
  EXPECT_LE(ClockTicks(kTwoOClock, 1e9, 4).size(), 5u);
}

TEST(Paths, BreakAtGaps) {
  const Scale x{.low = 0, .high = 10, .from = 0, .to = 100};
  const Scale y{.low = 0, .high = 1, .from = 50, .to = 0};
  const std::vector<XY> curve{{0, 1}, {2, kNan}, {4, 0.5}};
  EXPECT_EQ(StepPath(curve, 10, x, y), "M0 0H20M40 25H100");
  EXPECT_EQ(StepArea(curve, 10, x, y), "M0 50V0H20V50ZM40 50V25H100V50Z");
  EXPECT_EQ(StepPath({}, 10, x, y), "");
  EXPECT_EQ((Scale{.low = 1, .high = 1, .from = 7, .to = 9})(1), 7);
}

}  // namespace
}  // namespace carma::report
