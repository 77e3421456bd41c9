#include "lab/sim/monitor.h"

#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::FromMs;

// One GPU on which a task of 4,000 MiB starts after 10 s.
class MonitorTest : public testing::Test {
 protected:
  void Enter() {
    machines_.AddProcess(0);
    machines_.Enter(FromMs(10'000), 0,
                    {.id = core::TaskId{1}, .workload = &workload_, .gpus = {0}, .servers = {0}});
  }

  const Cluster cluster_ = MakeWorld("1xA100-40GB");
  const trace::Workload workload_ = MakeWorkload("small", 1, 300, 0.3, 4'000);
  RunOptions options_;
  const Layout layout_{cluster_, *FindMigProfile(1), false};
  Machines machines_{options_, layout_, FromMs(0), nullptr, [](std::uint32_t, double) {}};
  std::vector<core::Event> events_;
};

TEST_F(MonitorTest, TakesSamplesInTheLastMomentOfEachPeriod) {
  const Monitor monitor(options_.monitor, layout_, machines_);
  EXPECT_EQ(monitor.TickAfter(FromMs(0)), FromMs(999));
  EXPECT_EQ(monitor.TickAfter(FromMs(999)), FromMs(1'999));
}

TEST_F(MonitorTest, SamplesOnDemandOnceAfterAChange) {
  Monitor monitor(options_.monitor, layout_, machines_);
  EXPECT_FALSE(monitor.WantsTick(0, {}));
  Enter();
  EXPECT_TRUE(monitor.WantsTick(0, {}));
  monitor.Tick(0, FromMs(10'999), {}, events_);
  ASSERT_EQ(events_.size(), 1u);
  const auto& sample = std::get<core::GpuSampled>(events_[0]).sample;
  EXPECT_EQ(sample.used_mib, 4'000);
  EXPECT_EQ(sample.tasks_mib.at(0).first, core::TaskId{1});
  EXPECT_FALSE(monitor.WantsTick(0, {}));
  EXPECT_TRUE(monitor.WantsTick(0, {.waiting = 1})) << "the window still moves";
  EXPECT_EQ(monitor.samples(), 1);
}

TEST_F(MonitorTest, CatchesUpBeforeADecision) {
  Monitor monitor(options_.monitor, layout_, machines_);
  Enter();
  monitor.Tick(0, FromMs(10'999), {}, events_);
  events_.clear();
  monitor.CatchUp(0, FromMs(30'500), {.waiting = 1}, events_);
  EXPECT_TRUE(events_.empty()) << "it was sampled at every tick while a task waited";
  monitor.CatchUp(0, FromMs(30'500), {}, events_);
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(std::get<core::GpuSampled>(events_[0]).sample.taken, FromMs(29'999));
}

TEST_F(MonitorTest, SamplesEachPeriodIfAskedTo) {
  options_.monitor.mode = MonitorOptions::Mode::kPeriodic;
  Monitor monitor(options_.monitor, layout_, machines_);
  EXPECT_TRUE(monitor.WantsTick(0, {}));
  monitor.Tick(0, FromMs(999), {}, events_);
  EXPECT_EQ(events_.size(), 1u);
}

}  // namespace
}  // namespace carma::sim
