#include "daemon/gpus/usage_meter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace carma::daemon {
namespace {

using base::FromMs;

gpu::Reading Read(std::int64_t at_ms, std::int64_t used_mib, std::optional<double> sm_active,
                  std::optional<double> energy_j = std::nullopt) {
  gpu::Reading reading;
  reading.taken = FromMs(at_ms);
  reading.used_mib = used_mib;
  reading.sm_active = sm_active;
  reading.energy_j = energy_j;
  return reading;
}

class UsageMeterTest : public ::testing::Test {
 protected:
  std::vector<store::GpuUsage> Close(std::int64_t at_ms, bool shown_by_another = false) {
    std::vector<store::GpuUsage> rows;
    meter_.Close(FromMs(at_ms), shown_by_another, rows);
    return rows;
  }
  UsageMeter meter_{"GPU-0", base::Duration(10'000)};
};

TEST_F(UsageMeterTest, EachReadingCoversTheTimeSinceTheLast) {
  meter_.Add(Read(1'000, 10, 0.9, 500), 0);
  EXPECT_TRUE(Close(1'500).empty()) << "one reading does not produce a row";
  meter_.Add(Read(2'000, 20, 0.5, 600), 1);
  meter_.Add(Read(5'000, 40, 0.1, 650), 2);
  const std::vector<store::GpuUsage> rows = Close(6'000);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].from, FromMs(1'000));
  EXPECT_EQ(rows[0].to, FromMs(5'000));
  EXPECT_DOUBLE_EQ(rows[0].sm_active, (0.5 + 3 * 0.1) / 4);
  EXPECT_DOUBLE_EQ(rows[0].used_mib, (20 + 3 * 40) / 4.0);
  EXPECT_DOUBLE_EQ(rows[0].energy_j, 150);
  EXPECT_DOUBLE_EQ(rows[0].sm_peak, 0.5);
  EXPECT_EQ(rows[0].used_peak_mib, 40);
  EXPECT_EQ(rows[0].tasks, 2);
  EXPECT_TRUE(Close(6'000).empty()) << "each row is returned once";
}

TEST_F(UsageMeterTest, AGapBelongsToNoRow) {
  meter_.Add(Read(1'000, 10, 0.5), 0);
  meter_.Add(Read(2'000, 10, 0.5), 0);
  meter_.Add(Read(60'000, 10, 0.5), 0);
  meter_.Add(Read(61'000, 10, 0.5), 0);
  const std::vector<store::GpuUsage> rows = Close(61'000);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].to, FromMs(2'000));
  EXPECT_EQ(rows[1].from, FromMs(60'000));
}

TEST_F(UsageMeterTest, MissingValuesAreUnknownAndCountersMayRestart) {
  meter_.Add(Read(1'000, 10, 0.5, 900), 0);
  meter_.Add(Read(2'000, 10, std::nullopt, 100), 0);
  meter_.Add(Read(3'000, 10, 0.5, 130), 0);
  const std::vector<store::GpuUsage> rows = Close(3'000);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_TRUE(std::isnan(rows[0].sm_active));
  EXPECT_TRUE(std::isnan(rows[0].dram_active));
  EXPECT_DOUBLE_EQ(rows[0].energy_j, 30);
}

TEST_F(UsageMeterTest, EnergyShownByAnotherInstanceIsZeroHere) {
  meter_.Add(Read(1'000, 10, 0.5), 0);
  meter_.Add(Read(2'000, 10, 0.5), 0);
  EXPECT_TRUE(std::isnan(Close(2'000).at(0).energy_j));
  meter_.Add(Read(3'000, 10, 0.5), 0);
  EXPECT_EQ(Close(3'000, true).at(0).energy_j, 0);
}

}  // namespace
}  // namespace carma::daemon
