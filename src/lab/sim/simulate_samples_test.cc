// Tests the samples that the monitor takes in simulated runs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::Duration;

Totals WithoutSamples(Totals totals) {
  totals.samples = 0;
  return totals;
}

TEST(SimulateSamples, EnergyIsTheIntegralOfThePowerInTheRecord) {
  const Demo demo;
  RunOptions options = Immediate();
  options.points_per_gpu = 100;
  const RunResult run = Play(MakeWorld("dgx-station-a100"), demo.arrivals(), options);
  double energy_j = 0;
  double sm_s = 0;
  for (const report::RunGpu& gpu : run.record->gpus) {
    EXPECT_LE(gpu.points.size(), 101u);
    for (std::size_t i = 0; i < gpu.points.size(); ++i) {
      const base::Time until = i + 1 < gpu.points.size() ? gpu.points[i + 1].at : run.record->to;
      energy_j += gpu.points[i].power_w * base::Seconds(until - gpu.points[i].at);
      sm_s += gpu.points[i].sm_active * base::Seconds(until - gpu.points[i].at);
    }
  }
  EXPECT_NEAR(energy_j / run.totals.energy_j, 1.0, 1e-9);
  EXPECT_NEAR(sm_s / run.totals.makespan_s / 4, run.totals.sm_active, 1e-9);
  EXPECT_EQ(run.record->tasks.size(), 60u);
  EXPECT_EQ(run.totals.succeeded, 60);
}

// Skipped samples would not have changed anything, so the results are the same byte for byte.
TEST(SimulateSamples, SamplesOnDemandGiveTheSameRunAsAllSamples) {
  const std::vector<trace::Workload> workloads = Mixed();
  std::vector<Arrival> arrivals = Crowd(workloads, 60);
  for (std::size_t i = 0; i < arrivals.size(); ++i)
    arrivals[i].user = i % 5 < 3 ? "ada" : i % 5 == 3 ? "bob" : "eve";
  struct Case {
    std::string_view name;
    void (*change)(RunOptions&);
  };
  for (const Case& c : {
           Case{"defaults", [](RunOptions&) {}},
           Case{"fair order",
                [](RunOptions& o) {
                  o.policy.order = core::QueueOrder::kFair;
                  o.policy.fair.half_life = Duration{1'800'000};
                  o.policy.fair.patience = Duration{1'000'000};
                }},
           Case{"limits",
                [](RunOptions& o) {
                  o.policy.limits = {*core::ParseLimitRule("user=* running=2 gpu_hours=1/2h")};
                }},
           Case{"without estimates", [](RunOptions& o) { o.estimates.source = "none"; }},
           Case{"by activity", [](RunOptions& o) { o.policy.mapper = "lug"; }},
           Case{"changing memory",
                [](RunOptions& o) {
                  o.memory.first_share = 0.6;
                  o.memory.ramp = Duration{600'000};
                  o.memory.growth_per_hour = 0.1;
                  o.memory.spike_share = 0.2;
                  o.memory.spike_every = Duration{300'000};
                }},
           Case{"time slots",
                [](RunOptions& o) {
                  o.time_slot = Duration{200'000};
                  o.checkpoints = {.every = Duration{60'000}, .cost = Duration{5'000}};
                }},
           Case{"learning",
                [](RunOptions& o) {
                  o.estimates.method = "auto";
                  o.policy.floor_mib = 0;
                  o.policy.plateau_after = Duration{100'300};
                }},
           Case{"wrong estimates",
                [](RunOptions& o) {
                  o.estimates.sigma = 0.5;
                  o.estimates.missing_share = 0.1;
                }},
           Case{"published, November 2025",
                [](RunOptions& o) {
                  RunOptions published = *AsPublished("v2", o);
                  published.monitor.mode = o.monitor.mode;
                  o = published;
                }},
           Case{"streams, a slow estimator",
                [](RunOptions& o) {
                  o.collocation = core::SharingMethod::kStreams;
                  o.estimates.takes = Duration{1'700};
                }},
           Case{"retries on idle GPUs",
                [](RunOptions& o) {
                  o.policy.recovery = core::RecoveryMode::kExclusive;
                  o.policy.recovery_backoff = Duration{0};
                  o.policy.recovery_patience = Duration{60'000};
                  o.estimates.source = "none";
                }},
       }) {
    // Tests a settle timeout that is shorter than the load time as well as the usual one.
    for (const Duration settle_timeout : {Duration{10'000}, Duration{180'000}}) {
      RunOptions options;
      options.policy.settle_timeout = settle_timeout;
      options.estimates.source = "oracle";
      options.record = true;
      options.noise = 0.03;
      options.monitor.mode = MonitorOptions::Mode::kOnDemand;
      c.change(options);
      const RunResult few = Play(MakeWorld("4xA100-40GB"), arrivals, options);
      options.monitor.mode = MonitorOptions::Mode::kPeriodic;
      const RunResult all = Play(MakeWorld("4xA100-40GB"), arrivals, options);
      EXPECT_TRUE(SameTasks(*few.record, *all.record)) << c.name;
      EXPECT_TRUE(WithoutSamples(few.totals) == WithoutSamples(all.totals)) << c.name;
      EXPECT_LT(few.totals.samples, all.totals.samples) << c.name;
    }
  }
}

TEST(SimulateSamples, ADelayOfTheMonitorCostsTime) {
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 60);
  RunOptions options;
  options.estimates.source = "oracle";
  options.policy.plateau_after.reset();
  options.noise = 0.03;
  options.record = true;
  const auto waiting_s = [&](Duration delay) {
    options.monitor.delay = delay;
    double sum_s = 0;
    for (options.seed = 1; options.seed <= 20; ++options.seed)
      sum_s += MeasuresOf(Play(MakeWorld("4xA100-40GB"), arrivals, options)).waiting.mean;
    return sum_s;  // the random variation of a single run would exceed the delay's cost
  };
  EXPECT_GT(waiting_s(Duration{60'000}), waiting_s(Duration{0}));
}

}  // namespace
}  // namespace carma::sim
