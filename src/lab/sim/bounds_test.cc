#include "lab/sim/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "report/bounds.h"

namespace carma::sim {
namespace {

trace::Workload Made(double u, double s, double p, std::int64_t mib, int gpus = 1) {
  trace::Workload workload{.id = "w", .gpus = gpus, .solo_s = 600};
  workload.sm_active.assign(static_cast<std::size_t>(gpus), u);
  workload.memory_mib.assign(static_cast<std::size_t>(gpus), mib);
  workload.mps_sensitivity = s;
  workload.mps_pressure = p;
  return workload;
}

double BoundNamed(const std::vector<report::Bound>& bounds, std::string_view name) {
  const auto found = std::ranges::find(bounds, name, &report::Bound::name);
  return found == bounds.end() ? -1 : found->makespan_s;
}

TEST(BoundsOf, RequiresGpusOfOneType) {
  const trace::Workload small = Made(0.3, 0.5, 0.2, 4'000);
  const std::vector<Arrival> arrivals{{base::Duration{0}, &small}, {base::Duration{2'000}, &small}};
  const auto bounds = BoundsOf(*ParseCluster("2xA100-40GB"), arrivals, {});
  ASSERT_FALSE(bounds.empty());
  EXPECT_EQ(bounds.front().name, "longest task");
  EXPECT_DOUBLE_EQ(bounds.front().makespan_s, 2 + 14 + 600);
  EXPECT_TRUE(BoundsOf(*ParseCluster("1xA100-40GB,1xH100-80GB"), arrivals, {}).empty());
}

// Tries many combinations of loads, sharing methods and memory models.
TEST(BoundsOf, NoRunWithoutNoiseIsShorter) {
  base::Rng rng(3);
  const Cluster cluster = *ParseCluster("2xA100-40GB");
  for (int round = 0; round < 40; ++round) {
    std::vector<trace::Workload> workloads;
    for (int i = 0; i < 6; ++i) {
      workloads.push_back(Made(0.02 + 0.9 * rng.Uniform(), rng.Uniform(), rng.Uniform(),
                               500 + static_cast<std::int64_t>(rng.Below(20'000)),
                               rng.Below(5) == 0 ? 2 : 1));
    }
    std::vector<Arrival> arrivals;
    base::Duration at{0};
    for (int i = 0; i < 40; ++i) {
      at += base::Duration(static_cast<std::int64_t>(rng.Exponential(60'000)));
      arrivals.push_back({at, &workloads[rng.Below(workloads.size())], 30 + rng.Exponential(600)});
    }
    RunOptions options;
    options.estimates.source = "oracle";
    options.policy.sm_cap.reset();
    options.policy.settle = false;
    options.policy.margin_mib = 0;
    options.policy.max_tasks_per_gpu = 48;
    options.collocation = round % 3 == 0   ? core::SharingMethod::kStreams
                          : round % 3 == 1 ? core::SharingMethod::kMps
                                           : core::SharingMethod::kAlone;
    if (round % 4 == 0) {
      options.memory.first_share = 0.5;
      options.memory.ramp = base::Duration{200'000};
    }
    options.slowdown_limit = 1;
    const Result<RunResult> run = Simulate(cluster, arrivals, options);
    ASSERT_TRUE(run) << run.error().message;
    const std::vector<report::Bound> bounds = BoundsOf(cluster, arrivals, options);
    EXPECT_GE(run->totals.makespan_s, report::TightestBound(bounds) - 1e-6) << round;
    if (options.collocation != core::SharingMethod::kAlone) continue;
    EXPECT_GE(run->totals.makespan_s,
              BoundNamed(bounds, "SM activity area, slowdown at most 1") - 1e-6);
    EXPECT_GE(run->totals.makespan_s, BoundNamed(bounds, "exclusive area") - 1e-6);
  }
}

TEST(BoundsOf, ASlowdownLimitRaisesTheBound) {
  // Two of these tasks sharing a GPU each take 1 + 0.8 * 0.6 times as long as alone.
  const trace::Workload heavy = Made(0.6, 0.8, 0.6, 4'000);
  const std::vector<Arrival> arrivals(8, {base::Duration{0}, &heavy});
  const Cluster cluster = *ParseCluster("2xA100-40GB");
  RunOptions options;
  options.slowdown_limit = 1.4;
  EXPECT_DOUBLE_EQ(
      BoundNamed(BoundsOf(cluster, arrivals, options), "SM activity area, slowdown at most 1.4"),
      14 + 4 * 600);
  options.slowdown_limit = 1.5;
  EXPECT_NEAR(
      BoundNamed(BoundsOf(cluster, arrivals, options), "SM activity area, slowdown at most 1.5"),
      14 + 4 * 600 / (2 / 1.48), 1e-9);
  options.slowdown_limit = 0;
  EXPECT_EQ(BoundsOf(cluster, arrivals, options).size(), 5u);
}

// Tries all sets of up to four tasks.
TEST(MostDelivered, IsTheBestOfAllSetsThatKeepTheLimit) {
  base::Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<Load> loads;
    for (int i = 0; i < 4; ++i)
      loads.push_back({0.2 + 0.5 * rng.Uniform(), 0.5 + rng.Uniform(), 0.3 + rng.Uniform()});
    const double limit = 1.2 + 0.5 * rng.Uniform();
    const std::vector<double> most = MostDelivered({}, core::SharingMethod::kMps, loads, limit);
    std::vector<double> best;
    for (const Load& load : loads) best.push_back(load.sm_active);
    for (std::size_t code = 0; code < 625; ++code) {  // digit 4: no task
      std::vector<std::size_t> set;
      for (std::size_t digit = 0, rest = code; digit < 4; ++digit, rest /= 5) {
        if (rest % 5 < 4) set.push_back(rest % 5);
      }
      double pressure = 0, delivered = 0;
      for (const std::size_t each : set) pressure += loads[each].pressure;
      bool keeps = true;
      for (const std::size_t each : set) {
        const double slowdown = 1 + loads[each].sensitivity * (pressure - loads[each].pressure);
        keeps = keeps && slowdown <= limit;
        delivered += loads[each].sm_active / slowdown;
      }
      if (!keeps) continue;
      for (const std::size_t each : set)
        best[each] = std::max(best[each], std::min(delivered, 1.05));
    }
    for (std::size_t i = 0; i < loads.size(); ++i) EXPECT_NEAR(most[i], best[i], 1e-12) << round;
  }
}

TEST(MostDelivered, NeverMoreThanTheGpuDelivers) {
  const std::vector<Load> light(30, {0.1, 0.1, 0.01});
  for (const double most : MostDelivered({}, core::SharingMethod::kMps, light, 3))
    EXPECT_DOUBLE_EQ(most, 1.05);
  EXPECT_LE(MostDelivered({}, core::SharingMethod::kStreams, light, 100)[0], 1.0);
}

}  // namespace
}  // namespace carma::sim
