#include "lab/sim/sim_gpu.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "lab/sim/models.h"
#include "lab/sim/recorder.h"

namespace carma::sim {
namespace {

using base::Duration;
using base::FromMs;

TEST(SimGpu, MeanActivityIsExact) {
  SimGpu gpu(40'000, FromMs(0));
  const Duration keep{10'000};
  gpu.SetActivity(FromMs(2'000), 0.5, keep);
  gpu.SetActivity(FromMs(6'000), 1.0, keep);
  EXPECT_DOUBLE_EQ(gpu.MeanActivity(FromMs(0), FromMs(8'000)), (4 * 0.5 + 2 * 1.0) / 8);
  EXPECT_DOUBLE_EQ(gpu.MeanActivity(FromMs(3'000), FromMs(5'000)), 0.5);
  EXPECT_DOUBLE_EQ(gpu.MeanActivity(FromMs(7'000), FromMs(7'000)), 1.0);
  // Values older than any window are dropped. The others are kept.
  for (int i = 1; i <= 100; ++i) gpu.SetActivity(FromMs(6'000 + i * 1'000), 1.0 / i, keep);
  EXPECT_NEAR(gpu.MeanActivity(FromMs(105'000), FromMs(106'000)), 1.0 / 99, 1e-12);
}

TEST(SimGpu, UsedMemoryIsTheSumOfItsOccupants) {
  SimGpu gpu(40'000, FromMs(0));
  gpu.Add({.job = 1, .mib = 1'000});
  gpu.Add({.job = 2, .mib = 2'000});
  gpu.Resize(1, 1'500);
  EXPECT_EQ(gpu.used_mib(), 3'500);
  gpu.Remove(1);
  EXPECT_EQ(gpu.used_mib(), 2'000);
  EXPECT_DEATH(gpu.Remove(1), "that it is not on");
}

TEST(SimDevice, IntegratesFromItsStart) {
  SimDevice device({.idle_w = 50, .dynamic_w = 100, .k = 1, .max_w = 120}, FromMs(10'000));
  device.Set(FromMs(5'000), 0, 0.0);  // before the run, so it does not count
  device.Set(FromMs(20'000), 1'000, 1.0);
  device.Advance(FromMs(30'000));
  const double busy_w = PowerW({.idle_w = 50, .dynamic_w = 100, .k = 1, .max_w = 120}, 1.0);
  EXPECT_DOUBLE_EQ(device.energy_j(), 500 + 10 * busy_w);
  EXPECT_DOUBLE_EQ(device.sm_s(), 10);
  EXPECT_DOUBLE_EQ(device.mib_s(), 10'000);
}

TEST(MemoryModel, ReachesThePlateauAtOnceByDefault) {
  const MemoryModel model;
  EXPECT_EQ(HeldMib(model, 10'000, Duration{0}), 10'000);
  EXPECT_FALSE(NextStep(model, Duration{0}));
  EXPECT_EQ(AllocatableMib(model, 40'000, 5), 40'000);
}

TEST(MemoryModel, RampAndGrowthHaveTheirOwnSteps) {
  const MemoryModel model{.first_share = 0.2, .ramp = Duration{100'001}, .growth_per_hour = 0.6};
  Duration at{0};
  std::vector<std::int64_t> held{HeldMib(model, 10'000, at)};
  for (int i = 0; i < 6; ++i) {
    const std::optional<Duration> next = NextStep(model, at);
    ASSERT_TRUE(next);
    ASSERT_GT(*next, at);
    EXPECT_EQ(HeldMib(model, 10'000, *next - Duration{1}), held.back());
    at = *next;
    held.push_back(HeldMib(model, 10'000, at));
  }
  EXPECT_EQ(held, (std::vector<std::int64_t>{2'000, 4'000, 6'000, 8'000, 10'000, 11'000, 12'000}));
}

TEST(MemoryModel, SpikesComeAndGoDuringGrowth) {
  const MemoryModel model{.growth_per_hour = 0.6,
                          .spike_share = 0.5,
                          .spike_every = Duration{900'000},
                          .spike_lasts = Duration{30'000}};
  Duration at{0};
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // second, MiB
  for (int i = 0; i < 6; ++i) {
    const std::optional<Duration> next = NextStep(model, at);
    ASSERT_TRUE(next);
    ASSERT_GT(*next, at);
    at = *next;
    steps.emplace_back(at.count() / 1'000, HeldMib(model, 10'000, at));
  }
  EXPECT_EQ(steps, (std::vector<std::pair<std::int64_t, std::int64_t>>{{600, 11'000},
                                                                       {900, 16'000},
                                                                       {930, 11'000},
                                                                       {1'200, 12'000},
                                                                       {1'800, 18'000},
                                                                       {1'830, 13'000}}));
}

TEST(MemoryModel, FragmentsAreLostForEachFurtherTask) {
  const MemoryModel model{.fragmentation_mib = 300};
  EXPECT_EQ(AllocatableMib(model, 40'000, 1), 40'000);
  EXPECT_EQ(AllocatableMib(model, 40'000, 3), 39'400);
  EXPECT_EQ(AllocatableMib(model, 500, 9), 0);
}

TEST(Series, KeepsTheMeansWithinItsLimit) {
  Series series(10, FromMs(0));
  double integral = 0;
  base::Time at = FromMs(0);
  for (int i = 0; i < 1'000; ++i) {
    const Duration length{(i % 7 + 1) * 100};
    const double value = i % 13;
    series.Set(at, value, 0, 0);
    integral += value * base::Seconds(length);
    at += length;
  }
  const std::vector<report::GpuPoint> points = series.Finish(at);
  EXPECT_LE(points.size(), 11u);
  EXPECT_GE(points.size(), 4u);
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const base::Time until = i + 1 < points.size() ? points[i + 1].at : at;
    sum += points[i].used_mib * base::Seconds(until - points[i].at);
  }
  EXPECT_NEAR(sum, integral, 1e-6);
}

}  // namespace
}  // namespace carma::sim
