#include "estimate/sweeps.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"

namespace carma::estimate {
namespace {

// Adds a line that starts at `context` and rises by `sample` per sample.
void Add(const char* gpu, const char* benchmark, std::int64_t context, std::int64_t sample,
         std::vector<SweepPoint>& points) {
  for (const std::int64_t batch : {8, 16, 32, 64})
    points.push_back({gpu, benchmark, batch, context + sample * batch});
}

TEST(Sweeps, PredictsStraightLinesExactly) {
  std::vector<SweepPoint> points;
  Add("A", "small", 1'000, 10, points);
  Add("A", "large", 2'000, 50, points);
  Add("B", "small", 1'400, 10, points);
  Add("B", "large", 2'400, 50, points);
  int asked[4] = {};
  for (const SweepAnswer& each : AskSweeps(points)) {
    ++asked[static_cast<int>(each.question)];
    // The prediction is exact even below the smallest measured batch, because the points are on a
    // straight line.
    EXPECT_EQ(each.point, each.measured)
        << base::WordOf(each.question) << " " << each.benchmark << " " << each.measured;
  }
  EXPECT_EQ(asked[0], 16);
  EXPECT_EQ(asked[1], 8) << "batches 32 and 64 of each line";
  EXPECT_EQ(asked[2], 16);
  EXPECT_EQ(asked[3], 4);
}

TEST(Sweeps, ReadsPublishedTables) {
  const std::string path = ::testing::TempDir() + "/sweep.csv";
  ASSERT_TRUE(base::WriteFileAtomic(
      path, "gpu,benchmark,batch,runs,mem_mib_median\nH100,bert,1,2,3885\nH100,bert,16,1,\n",
      0600));
  EXPECT_TRUE(IsSweep(path).value());
  const auto points = ReadSweeps(path);
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), 1U);
  EXPECT_EQ(points->front().mib, 3'885);
  ASSERT_TRUE(
      base::WriteFileAtomic(path, "gpu,benchmark,batch,mem_mib_median\nH100,bert,many,1\n", 0600));
  EXPECT_FALSE(ReadSweeps(path));
  ASSERT_TRUE(base::WriteFileAtomic(path, "id,source,mem_gib\n1,x,2\n", 0600));
  EXPECT_FALSE(IsSweep(path).value());
}

}  // namespace
}  // namespace carma::estimate
