#include "daemon/gpus/gpu_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace carma::daemon {
namespace {

using Point = api::GpuHistoryView::Point;

constexpr double kUnknown = store::GpuUsage::kUnknown;
constexpr base::Duration kLongest{10'000};

base::Time AtMs(std::int64_t ms) {
  return base::FromMs(ms);
}

store::GpuUsage Row(std::int64_t from_ms, std::int64_t to_ms, double sm_active) {
  return {.from = AtMs(from_ms),
          .to = AtMs(to_ms),
          .gpu_uuid = "GPU-a",
          .sm_active = sm_active,
          .used_mib = 1'000,
          .energy_j = 200 * static_cast<double>(to_ms - from_ms) / 1000,
          .tasks = 1,
          .sm_peak = sm_active + 0.1,
          .used_peak_mib = 1'500,
          .dram_active = 0.2};
}

HistoryPoint Reading(std::int64_t taken_ms, std::optional<double> sm_active,
                     std::int64_t used_mib = 3'000) {
  return {.taken = AtMs(taken_ms),
          .sm_active = sm_active,
          .dram_active = 0.4,
          .power_w = 300,
          .used_mib = used_mib,
          .tasks = 2};
}

std::vector<Point> Timeline(int points, const std::vector<store::GpuUsage>& rows,
                            const std::vector<HistoryPoint>& readings = {}) {
  GpuTimeline timeline(AtMs(0), AtMs(240'000), points, readings, kLongest);
  for (const store::GpuUsage& row : rows) timeline.Add(row);
  return timeline.Points();
}

TEST(GpuTimeline, HasNoPointsWithoutData) {
  EXPECT_TRUE(Timeline(10, {}).empty());
  EXPECT_TRUE(Timeline(10, {}, {Reading(5'000, 0.5)}).empty()) << "a single reading covers no time";
}

TEST(GpuTimeline, ARollUpBecomesItsSpan) {
  const std::vector<Point> points = Timeline(4, {Row(60'000, 120'000, 0.5)});
  ASSERT_EQ(points.size(), 1u) << "empty spans are left out";
  EXPECT_EQ(points[0].from_ms, 60'000);
  EXPECT_EQ(points[0].to_ms, 120'000);
  EXPECT_DOUBLE_EQ(points[0].sm_active.value(), 0.5);
  EXPECT_DOUBLE_EQ(points[0].sm_peak.value(), 0.6);
  EXPECT_DOUBLE_EQ(points[0].dram_active.value(), 0.2);
  EXPECT_DOUBLE_EQ(points[0].used_mib, 1'000);
  EXPECT_DOUBLE_EQ(points[0].used_peak_mib.value(), 1'500);
  EXPECT_DOUBLE_EQ(points[0].power_w.value(), 200);
  EXPECT_EQ(points[0].tasks, 1);
}

TEST(GpuTimeline, MeansAreWeightedByTimeAndPeaksAreMaxima) {
  const std::vector<Point> points =
      Timeline(2, {Row(0, 30'000, 0.8), Row(30'000, 120'000, 0.2), Row(120'000, 240'000, 0.4)});
  ASSERT_EQ(points.size(), 2u);
  EXPECT_NEAR(*points[0].sm_active, 0.35, 1e-9);
  EXPECT_NEAR(*points[0].sm_peak, 0.9, 1e-9);
  EXPECT_NEAR(*points[1].sm_active, 0.4, 1e-9);
}

TEST(GpuTimeline, ARollUpIsDividedAmongItsSpans) {
  const std::vector<Point> points = Timeline(2, {Row(0, 110'000, 0.0), Row(110'000, 180'000, 1.0)});
  ASSERT_EQ(points.size(), 2u);
  EXPECT_NEAR(*points[0].sm_active, 1.0 / 12, 1e-9);
  EXPECT_NEAR(*points[1].sm_active, 1.0, 1e-9);
}

TEST(GpuTimeline, DataBeyondTheEdgesDoesNotCount) {
  const std::vector<Point> points =
      Timeline(1, {Row(-60'000, 60'000, 1.0), Row(60'000, 600'000, 0.0), Row(600'000, 660'000, 1)});
  ASSERT_EQ(points.size(), 1u);
  EXPECT_NEAR(*points[0].sm_active, 0.25, 1e-9);
}

TEST(GpuTimeline, UnknownValuesDoNotCount) {
  store::GpuUsage silent = Row(60'000, 120'000, kUnknown);
  silent.energy_j = silent.sm_peak = silent.used_peak_mib = silent.dram_active = kUnknown;
  const std::vector<Point> alone = Timeline(1, {silent});
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_FALSE(alone[0].sm_active || alone[0].sm_peak || alone[0].dram_active || alone[0].power_w ||
               alone[0].used_peak_mib);
  EXPECT_EQ(alone[0].used_mib, 1'000);
  silent.energy_j = 0;
  EXPECT_FALSE(Timeline(1, {silent})[0].power_w) << "an instance has no power reading of its own";
  const std::vector<Point> beside = Timeline(1, {Row(0, 60'000, 0.5), silent});
  EXPECT_NEAR(*beside[0].sm_active, 0.5, 1e-9) << "not counted as idle";
}

TEST(GpuTimeline, ReadingsReplaceRollUps) {
  const std::vector<Point> points =
      Timeline(2, {Row(0, 120'000, 0.5), Row(120'000, 180'000, 0.0)},
               {Reading(120'000, 0.9), Reading(121'000, 1.0), Reading(122'000, 0.6, 4'000)});
  ASSERT_EQ(points.size(), 2u);
  EXPECT_NEAR(*points[0].sm_active, 0.5, 1e-9);
  EXPECT_NEAR(*points[1].sm_active, 0.8, 1e-9) << "the roll-up is less precise";
  EXPECT_EQ(points[1].sm_peak, 1.0);
  EXPECT_EQ(points[1].used_peak_mib, 4'000);
  EXPECT_EQ(points[1].power_w, 300);
  EXPECT_EQ(points[1].tasks, 2);
}

TEST(GpuTimeline, ASilentDriverLeavesAGap) {
  const std::vector<Point> points =
      Timeline(24, {}, {Reading(0, 0.5), Reading(1'000, 0.5), Reading(201'000, 0.5)});
  ASSERT_EQ(points.size(), 3u) << "the last reading is valid for ten seconds at most";
  EXPECT_EQ(points[0].from_ms, 0);
  EXPECT_EQ(points[1].from_ms, 190'000);
  EXPECT_EQ(points[2].from_ms, 200'000);
}

TEST(GpuTimeline, NeverHasMorePointsThanRequested) {
  for (const int points : {1, 2, 7, 60, 999, kMostHistoryPoints}) {
    for (const std::int64_t length_ms : {1, 59, 61, 1'000, 3'599'999, 3'600'000}) {
      GpuTimeline timeline(AtMs(5), AtMs(5 + length_ms), points, {}, kLongest);
      timeline.Add(Row(0, 10'000'000, 0.5));
      const std::vector<Point> made = timeline.Points();
      ASSERT_LE(made.size(), static_cast<std::size_t>(points)) << length_ms;
      EXPECT_EQ(made.front().from_ms, 5);
      EXPECT_EQ(made.back().to_ms, 5 + length_ms);
      for (std::size_t i = 1; i < made.size(); ++i) {
        ASSERT_EQ(made[i].from_ms, made[i - 1].to_ms);
        ASSERT_NEAR(*made[i].sm_active, 0.5, 1e-9);
      }
    }
  }
}

GpuHistoryRequest Request() {
  GpuHistoryRequest request;
  request.from = AtMs(0);
  request.to = AtMs(240'000);
  request.points = 4;
  request.gpu = {.index = 1, .uuid = "GPU-a", .name = "H100", .points = {}};
  request.readings = {Reading(180'000, 0.5), Reading(185'000, 0.5)};
  request.longest = kLongest;
  return request;
}

TEST(GpuHistory, IgnoresRowsOfOtherGpus) {
  store::GpuUsage other = Row(60'000, 120'000, 1);
  other.gpu_uuid = "GPU-b";
  const api::GpuHistoryView view = GpuHistory(Request(), {Row(0, 60'000, 0.5), other});
  EXPECT_EQ(view.uuid, "GPU-a");
  ASSERT_EQ(view.points.size(), 2u);
  EXPECT_EQ(view.points[0].from_ms, 0);
  EXPECT_EQ(view.points[1].from_ms, 180'000);
}

TEST(GpuHistory, IsTheSameFromTheStoreAndFromRows) {
  std::string folder = ::testing::TempDir() + "/carma-history-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  std::vector<store::GpuUsage> rows;
  for (std::int64_t minute = -2; minute < 8; ++minute) {
    for (const char* uuid : {"GPU-a", "GPU-b"}) {
      rows.push_back(Row(minute * 60'000, (minute + 1) * 60'000, 0.1 * (minute + 2.0)));
      rows.back().gpu_uuid = uuid;
    }
  }
  const auto store = store::Store::Open(folder);
  ASSERT_TRUE(store) << store.error().message;
  ASSERT_TRUE((*store)->Begin());
  for (const store::GpuUsage& row : rows) ASSERT_TRUE((*store)->AddUsage(row));
  ASSERT_TRUE((*store)->Commit());
  const std::atomic<bool> wanted = true;
  const auto text = GpuHistoryText(Request(), folder, wanted);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, base::DumpJson(ToJson(GpuHistory(Request(), rows))));
  const std::atomic<bool> unwanted = false;
  const auto stopped = GpuHistoryText(Request(), folder, unwanted);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kUnavailable);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace carma::daemon
