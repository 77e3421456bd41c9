#include "lab/sim/machines.h"

#include <map>

#include "lab/sim/simulate_fixture.h"

namespace carma::sim {
namespace {

using base::Duration;
using base::FromMs;

class MachinesTest : public testing::Test {
 protected:
  static Machines::Resident On(const trace::Workload& workload, std::vector<std::uint32_t> gpus) {
    return {.id = core::TaskId{1}, .workload = &workload, .gpus = std::move(gpus), .servers = {0}};
  }
  Machines Make() {
    return Machines(options_, layout_, FromMs(0), nullptr,
                    [this](std::uint32_t job, double pace) { paces_[job] = pace; });
  }

  const Cluster cluster_ = MakeWorld("2xA100-40GB");
  const trace::Workload small_ = MakeWorkload("small", 1, 300, 0.6, 4'000);
  const trace::Workload large_ = MakeWorkload("large", 1, 300, 0.6, 36'000);
  const trace::Workload both_ = MakeWorkload("both", 2, 300, 0.6, 4'000);
  const Layout layout_{cluster_, *FindMigProfile(1), false};
  RunOptions options_;
  std::map<std::uint32_t, double> paces_;
};

TEST_F(MachinesTest, NeighboursSlowEachOtherDown) {
  Machines machines = Make();
  machines.Enter(FromMs(0), 0, On(small_, {0}));
  EXPECT_DOUBLE_EQ(paces_[0], 1);
  machines.Enter(FromMs(0), 1, On(small_, {0}));
  EXPECT_LT(paces_[0], 1);
  EXPECT_DOUBLE_EQ(paces_[0], paces_[1]);
  machines.Leave(FromMs(5'000), 0);
  EXPECT_DOUBLE_EQ(paces_[1], 1);
  machines.Leave(FromMs(6'000), 1);
  machines.CheckEmpty();
}

TEST_F(MachinesTest, ATaskOnTwoGpusIsAsFastAsTheSlowerOne) {
  Machines machines = Make();
  machines.Enter(FromMs(0), 0, On(both_, {0, 1}));
  EXPECT_DOUBLE_EQ(paces_[0], 1);
  machines.Enter(FromMs(0), 1, On(small_, {1}));
  EXPECT_LT(paces_[0], 1);
}

TEST_F(MachinesTest, MemoryIsGivenToOneTaskOnly) {
  options_.memory.first_share = 0.1;
  options_.memory.ramp = Duration{10'000};
  Machines machines = Make();
  EXPECT_TRUE(machines.HasRoom(On(large_, {0})));
  machines.Enter(FromMs(0), 0, On(large_, {0}));
  machines.Enter(FromMs(0), 1, On(large_, {0}));  // both tasks start small
  EXPECT_TRUE(machines.Resize(FromMs(10'000), 0, Duration{10'000}));
  EXPECT_FALSE(machines.HasRoom(On(large_, {0})));
  EXPECT_FALSE(machines.Resize(FromMs(10'000), 1, Duration{10'000})) << "out of memory";
  EXPECT_EQ(machines.gpu(0).occupants().size(), 1u);
  machines.Leave(FromMs(11'000), 0);
  machines.CheckEmpty();
}

TEST_F(MachinesTest, ALimitAppliesEvenIfTheGpuHasMoreMemory) {
  Machines machines = Make();
  Machines::Resident limited = On(small_, {0});
  limited.limit_mib = 3'999;
  EXPECT_FALSE(machines.HasRoom(limited));
  limited.limit_mib = 4'000;
  EXPECT_TRUE(machines.HasRoom(limited));
}

TEST_F(MachinesTest, AGpuIsIdleWithoutProcesses) {
  Machines machines = Make();
  EXPECT_EQ(machines.IdleGpus(0), 2);
  machines.AddProcess(0);
  machines.AddProcess(0);
  EXPECT_EQ(machines.IdleGpus(0), 1);
  EXPECT_EQ(machines.Loading(0), 2);
  machines.Enter(FromMs(0), 0, On(small_, {0}));
  EXPECT_EQ(machines.Loading(0), 1);
  machines.RemoveProcess(0);
  EXPECT_EQ(machines.IdleGpus(0), 1);
}

}  // namespace
}  // namespace carma::sim
