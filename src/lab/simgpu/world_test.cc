#include "lab/simgpu/world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

namespace carma::simgpu {
namespace {

constexpr double kTiny = 1e-9;

std::unique_ptr<World> MakeWorld(const char* shape) {
  auto world = std::make_unique<World>();
  InitWorld(*world, *sim::ParseDividedShape(shape), 1);
  return world;
}

struct Task {
  double u = 0.5, s = 0.5, p = 0.5;
  double work_s = 100;
  core::SharingMethod sharing = core::SharingMethod::kMps;
  std::vector<int> gpus = {0};
  std::int64_t memory_mib = 1'000;
  std::uint32_t server = 1;
};

int Put(World& world, const Task& task) {
  Arrival arrival{.pid = 7,
                  .sharing = task.sharing,
                  .mps_server = task.server,
                  .sensitivity = task.s,
                  .pressure = task.p,
                  .work_s = task.work_s};
  for (const int gpu : task.gpus) arrival.shares.push_back({gpu, task.memory_mib, task.u});
  EXPECT_FALSE(FindShortage(world, arrival.shares));
  const int slot = FreeSlot(world);
  Place(world, slot, arrival);
  return slot;
}

double Left(const World& world, int slot) {
  return world.motion().work_left_s[slot];
}

TEST(World, AnIdleGpuDrawsItsIdlePower) {
  auto world = MakeWorld("A100-40GB");
  Advance(*world, 10);
  EXPECT_NEAR(world->motion().totals[0].energy_j, 538, kTiny);
  EXPECT_EQ(world->gpus[0].sm_active, 0);
  EXPECT_EQ(world->motion().totals[0].busy_s, 0);
}

TEST(World, ATaskAloneRunsAtFullSpeedAndThenOnlyHoldsItsMemory) {
  auto world = MakeWorld("A100-40GB");
  Advance(*world, 50);
  const int slot = Put(*world, {.u = 0.6, .work_s = 100, .memory_mib = 5'000});
  EXPECT_FALSE(Advance(*world, 120));
  EXPECT_NEAR(Left(*world, slot), 30, kTiny);
  EXPECT_EQ(world->gpus[0].used_mib, 5'000);
  EXPECT_TRUE(Advance(*world, 200));
  EXPECT_EQ(Left(*world, slot), 0);
  const Totals& totals = world->motion().totals[0];
  EXPECT_NEAR(totals.busy_s, 100, kTiny);
  // The power model is P = 53.8 + 286.2 (1 - exp(-1.491 SMACT)).
  const double smact = 0.6;
  EXPECT_NEAR(totals.sm_s, 100 * smact, 1e-6);
  const double watt = 53.8 + 286.2 * (1 - std::exp(-1.491 * smact));
  EXPECT_NEAR(totals.energy_j, 100 * 53.8 + 100 * watt, 1e-6);
  EXPECT_NEAR(totals.memory_mib_s, 150 * 5'000, 1e-6);
  Remove(*world, slot);
  EXPECT_EQ(world->gpus[0].used_mib, 0);
}

TEST(World, TwoTasksSlowEachOtherByTheFormulas) {
  struct Case {
    const char* name;
    core::SharingMethod first, second;
    double pace_a, pace_b;
  };
  const double g_a = 1 - std::pow(0.7, 1.7), g_b = 1 - std::pow(0.6, 1.7);
  const double switched = 1 / (1 + 1.5 * g_a * g_b);
  const Case cases[] = {
      // slowdown = 1 + s * p, where p is the other task's pressure. Activities of 0.3 and 0.4 stay
      // below saturation.
      {"both through MPS", core::SharingMethod::kMps, core::SharingMethod::kMps, 1 / 1.2, 1 / 1.06},
      {"both without", core::SharingMethod::kStreams, core::SharingMethod::kStreams, switched,
       switched},
      {"one outside the MPS server", core::SharingMethod::kMps, core::SharingMethod::kStreams,
       switched, switched},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    auto world = MakeWorld("A100-40GB");
    const int a = Put(*world, {.u = 0.3, .s = 0.5, .p = 0.2, .sharing = c.first});
    const int b = Put(*world, {.u = 0.4, .s = 0.3, .p = 0.4, .sharing = c.second});
    EXPECT_NEAR(world->residents[a].pace, c.pace_a, 1e-9);
    EXPECT_NEAR(world->residents[b].pace, c.pace_b, 1e-9);
    Advance(*world, 10);
    EXPECT_NEAR(Left(*world, a), 100 - 10 * c.pace_a, 1e-6);
    EXPECT_NEAR(Left(*world, b), 100 - 10 * c.pace_b, 1e-6);
  }
}

TEST(World, ClientsOfOneServerComputeSideBySide) {
  const Task task{.u = 0.2, .s = 0.5, .p = 0.2};
  const auto pace = [&](std::uint32_t second_server, bool outsider) {
    auto world = MakeWorld("A100-40GB");
    const int first = Put(*world, task);
    Task second = task;
    second.server = second_server;
    Put(*world, second);
    if (outsider) {
      Task other = task;
      other.sharing = core::SharingMethod::kStreams;
      Put(*world, other);
    }
    return world->residents[first].pace;
  };
  EXPECT_NEAR(pace(1, false), 1 / 1.1, 1e-9);
  EXPECT_LT(pace(2, false), pace(1, false)) << "two servers take turns";
  const double g_server = 1 - std::pow(0.64, 0.95 * 1.7), g_other = 1 - std::pow(0.8, 1.7);
  EXPECT_NEAR(pace(1, true), 1 / 1.1 / (1 + 1.5 * g_server * g_other), 1e-9)
      << "the two run side by side and take turns with the outsider";
}

TEST(World, OneLongAdvanceEqualsManyShortOnes) {
  // The second task ends between two readings. From then on, the first task must run as if alone.
  auto once = MakeWorld("2xA100-40GB"), often = MakeWorld("2xA100-40GB");
  for (World* world : {once.get(), often.get()}) {
    Put(*world, {.u = 0.7, .work_s = 300});
    Put(*world, {.u = 0.6, .work_s = 40});
    Put(*world, {.u = 0.2, .work_s = 33, .gpus = {0, 1}});
  }
  Advance(*once, 200);
  for (int i = 1; i <= 20'000; ++i) Advance(*often, i * 0.01);
  for (int slot = 0; slot < 3; ++slot) EXPECT_NEAR(Left(*once, slot), Left(*often, slot), 1e-6);
  for (int g = 0; g < 2; ++g) {
    EXPECT_NEAR(once->motion().totals[g].energy_j, often->motion().totals[g].energy_j, 1e-4);
    EXPECT_NEAR(once->motion().totals[g].sm_s, often->motion().totals[g].sm_s, 1e-6);
  }
}

TEST(World, ATaskOnTwoGpusRunsAtThePaceOfTheSlowerOne) {
  auto world = MakeWorld("2xA100-40GB");
  const int wide = Put(*world, {.u = 0.3, .s = 0.5, .p = 0.2, .gpus = {0, 1}});
  EXPECT_NEAR(world->residents[wide].pace, 1, kTiny);
  Put(*world, {.u = 0.3, .s = 0.5, .p = 0.8, .gpus = {1}});
  EXPECT_NEAR(world->residents[wide].pace, 1 / 1.4, kTiny);
}

TEST(World, AFasterGpuTakesLessTime) {
  auto world = MakeWorld("A100-40GB,H100-80GB");
  const int fast = Put(*world, {.gpus = {1}});
  EXPECT_NEAR(world->residents[fast].pace, 2.61, kTiny);
  const int both = Put(*world, {.s = 0, .gpus = {0, 1}});
  EXPECT_NEAR(world->residents[both].pace, 1, kTiny);
}

TEST(World, AProcessThatOnlyHoldsMemorySlowsNoTask) {
  auto world = MakeWorld("A100-40GB");
  const int task = Put(*world, {});
  Put(*world, {.work_s = 0, .sharing = core::SharingMethod::kStreams});
  EXPECT_NEAR(world->residents[task].pace, 1, kTiny);
  EXPECT_EQ(world->gpus[0].used_mib, 2'000);
  EXPECT_EQ(world->gpus[0].residents, 2);
  EXPECT_EQ(world->gpus[0].working, 1);
}

TEST(World, MemoryFitsToTheLastMebibyte) {
  auto world = MakeWorld("2xA100-40GB");  // 40 960 - 424 usable
  Put(*world, {.memory_mib = 40'000});
  const Share exact[] = {{0, 536, 0}}, more[] = {{1, 40'536, 0}, {0, 537, 0}};
  EXPECT_FALSE(FindShortage(*world, exact));
  const std::optional<Shortage> shortage = FindShortage(*world, more);
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->gpu, 0);
  EXPECT_EQ(shortage->wanted_mib, 537);
  EXPECT_EQ(shortage->free_mib, 536);
  EXPECT_EQ(shortage->usable_mib, 40'536);
}

TEST(World, GrowingAndStoppingWork) {
  auto world = MakeWorld("A100-40GB");
  const int slot = Put(*world, {.u = 0.5, .work_s = 100});
  const Share more[] = {{0, 500, 0}};
  Grow(*world, slot, more);
  EXPECT_EQ(world->gpus[0].used_mib, 1'500);
  EXPECT_NEAR(world->residents[slot].pace, 1, kTiny);
  Stop(*world, slot);
  EXPECT_EQ(world->residents[slot].pace, 0);
  Advance(*world, 50);
  EXPECT_EQ(Left(*world, slot), 100);
  EXPECT_EQ(world->gpus[0].used_mib, 1'500);
}

TEST(World, AThreadPercentageSlowsLargerTasks) {
  auto world = MakeWorld("A100-40GB");
  const auto put = [&](double u, double cap) {
    Arrival arrival{.pid = 7,
                    .sharing = core::SharingMethod::kMps,
                    .sm_cap = cap,
                    .sensitivity = 0.5,
                    .pressure = 0.6,
                    .work_s = 100,
                    .shares = {{0, 1'000, u}}};
    const int slot = FreeSlot(*world);
    Place(*world, slot, arrival);
    return slot;
  };
  const int small = put(0.2, 0.25);
  EXPECT_NEAR(world->residents[small].pace, 1, kTiny) << "within its share";
  const int big = put(0.8, 0.4);
  // At half its speed, the task also exerts only half its pressure on the neighbour.
  EXPECT_NEAR(world->residents[big].pace, 0.5 / (1 + 0.5 * 0.6), kTiny);
  EXPECT_NEAR(world->residents[small].pace, 1 / (1 + 0.5 * 0.3), kTiny);
  EXPECT_NEAR(world->gpus[0].sm_active, 1 - std::pow(0.8 * 0.6, 0.95), kTiny);
}

TEST(World, InstancesDoNotDisturbEachOtherAndAddUpToTheirGpu) {
  auto world = MakeWorld("A100-40GB,A100-80GB:mig=3g.40gb+2g.20gb");
  ASSERT_EQ(world->gpu_count, 2);
  ASSERT_EQ(world->place_count, 4);
  EXPECT_EQ(world->gpus[2].total_mib, 40'960);
  EXPECT_EQ(world->gpus[3].total_mib, 20'480);
  const int big = Put(*world, {.u = 0.9, .gpus = {2}, .memory_mib = 30'000});
  const int small = Put(*world, {.u = 0.2, .gpus = {3}, .memory_mib = 10'000});
  // Each task is alone on its instance and runs with the instance's SMs and the GPU type's speed.
  EXPECT_NEAR(world->residents[big].pace, 1.15 * 3 / 7 / 0.9, kTiny);
  EXPECT_NEAR(world->residents[small].pace, 1.15, kTiny);
  EXPECT_EQ(world->gpus[1].used_mib, 40'000);
  EXPECT_EQ(world->gpus[1].residents, 2);
  const double busy = world->gpus[2].sm_active * 3 / 7 + world->gpus[3].sm_active * 2 / 7;
  EXPECT_NEAR(world->gpus[2].sm_active, 1, kTiny);
  EXPECT_NEAR(world->gpus[1].sm_active, busy, kTiny);
  EXPECT_NEAR(world->gpus[1].power_w, sim::PowerW(world->gpus[1].power, busy), kTiny);
  EXPECT_EQ(world->gpus[2].power_w, 0);
  EXPECT_EQ(world->gpus[0].used_mib, 0);
  const Share too_much[] = {{3, 10'269, 0}};
  EXPECT_EQ(FindShortage(*world, too_much)->free_mib, 20'480 - 212 - 10'000);
  // Within an instance, neighbours slow each other down as usual, in proportion to their share of
  // its SMs.
  const int second = Put(*world, {.u = 0.2, .s = 0.5, .p = 0.5, .gpus = {3}});
  EXPECT_NEAR(world->residents[small].pace, world->residents[second].pace, kTiny);
  EXPECT_LT(world->residents[small].pace, 1.15);
  EXPECT_NEAR(world->residents[big].pace, 1.15 * 3 / 7 / 0.9, kTiny);
}

TEST(World, KernelTimeIsProportionalToTheWorkDone) {
  auto world = MakeWorld("A100-40GB");
  const int alone = Put(*world, {.u = 0.3, .sharing = core::SharingMethod::kStreams});
  EXPECT_NEAR(KernelShare(*world, alone, 0), 1, kTiny);
  const int other = Put(*world, {.u = 0.3, .sharing = core::SharingMethod::kStreams});
  const int holder = Put(*world, {.work_s = 0});
  EXPECT_NEAR(KernelShare(*world, alone, 0), 0.5, kTiny);
  EXPECT_NEAR(KernelShare(*world, other, 0), 0.5, kTiny);
  EXPECT_EQ(KernelShare(*world, holder, 0), 0);
}

TEST(World, AResetClearsRepairableErrors) {
  Condition condition{.ecc_corrected = 5,
                      .ecc_uncorrected = 2,
                      .rows_remapped = 3,
                      .remap_pending = 1,
                      .remap_failed = 1,
                      .recovery_action = 1};
  ResetCondition(condition);
  EXPECT_EQ(condition, (Condition{.rows_remapped = 4, .remap_failed = 1}));
}

TEST(World, KeepsTheLastXids) {
  auto world = MakeWorld("A100-40GB");
  for (int xid = 1; xid <= kMaxXids + 3; ++xid) Announce(*world, {0, xid});
  EXPECT_EQ(world->xid_count, kMaxXids + 3u);
  EXPECT_EQ(world->xids[2].xid, kMaxXids + 3);
  EXPECT_EQ(world->xids[3].xid, 4);
}

TEST(World, TimeNeverGoesBack) {
  auto world = MakeWorld("A100-40GB");
  Advance(*world, 10);
  EXPECT_FALSE(Advance(*world, 4));
  EXPECT_EQ(world->motion().now_s, 10);
}

TEST(World, ParsesShapesOrRefusesThemWithTheKnownTypes) {
  struct Case {
    const char* shape;
    std::size_t gpus;  // 0: refused
  };
  const Case cases[] = {{"4xA100-40GB", 4},
                        {"A100-40GB", 1},
                        {"2xa100-40gb, 1xH100-80GB", 3},
                        {"RTX3090-24GB", 1},
                        {"8xRTX3090-24GB", 8},
                        {"64xT4-16GB", 64},
                        {"65xT4-16GB", 0},
                        {"0xT4-16GB", 0},
                        {"-1xT4-16GB", 0},
                        {"", 0},
                        {"4x", 0},
                        {"4xB300", 0},
                        {"A100-40GB,,A100-40GB", 0},
                        {"9999999999999xT4-16GB", 0}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.shape);
    const auto gpus = sim::ParseShape(c.shape);
    EXPECT_EQ(gpus ? gpus->size() : 0, c.gpus);
    if (!gpus) {
      EXPECT_EQ(gpus.error().code, ErrorCode::kInvalid);
    }
  }
  EXPECT_NE(sim::ParseShape("4xB300").error().message.find("A100-80GB"), std::string::npos);
}

TEST(World, ParsesOrRefusesDivisions) {
  struct Case {
    const char* shape;
    std::vector<std::size_t> instances;  // per GPU; 99: not partitioned; empty: refused
    const char* complaint = "";
  };
  const Case cases[] = {
      {"2xA100-40GB,A100-80GB:mig=3g.40gb+2g.20gb+1g.10gb", {99, 99, 3}},
      {"2xH100-80GB:mig=7g.80gb", {1, 1}},
      {"H200-141GB: MIG=1G.18GB + 2g.35gb + 3g.71gb", {3}},
      {"A100-40GB:mig=1g.5gb+1g.5gb+1g.5gb+1g.5gb+1g.5gb+1g.5gb+1g.5gb", {7}},
      {"A100-40GB:mig=", {0}},
      {"A100-40GB:mig=4g.20gb+3g.20gb", {2}},
      {"A100-40GB:mig=4g.20gb+4g.20gb", {}, "needs more slices than one A100-40GB has"},
      {"A100-40GB:mig=3g.20gb+3g.20gb+1g.5gb", {}, "needs more slices than"},
      {"A100-40GB:mig=3g.40gb", {}, "expected one of 7g.40gb, 4g.20gb, 3g.20gb"},
      {"A100-40GB:mig=3g.20gb+", {}, "unknown MIG profile ''"},
      {"A100-40GB:3g.20gb", {}, "expected mig=PROFILE+PROFILE"},
      {"T4-16GB:mig=1g.2gb", {}, "T4-16GB does not support MIG"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.shape);
    const auto gpus = sim::ParseDividedShape(c.shape);
    ASSERT_EQ(gpus.has_value(), !c.instances.empty());
    if (!gpus) {
      EXPECT_NE(gpus.error().message.find(c.complaint), std::string::npos) << gpus.error().message;
      continue;
    }
    std::vector<std::size_t> instances;
    for (const sim::ShapedGpu& gpu : *gpus) instances.push_back(gpu.mig ? gpu.mig->size() : 99);
    EXPECT_EQ(instances, c.instances);
  }
  EXPECT_FALSE(sim::ParseShape("A100-40GB:mig=7g.40gb")) << "this function accepts only whole GPUs";
  const auto many = sim::ParseDividedShape("64xA100-40GB:mig=1g.5gb+1g.5gb");
  ASSERT_TRUE(many);
  EXPECT_TRUE(TooManyInstances(*many));
}

TEST(World, UuidsDifferByGpuAndSeedAndStayTheSame) {
  auto a = MakeWorld("4xA100-40GB"), b = MakeWorld("4xA100-40GB");
  EXPECT_STREQ(a->gpus[2].uuid, b->gpus[2].uuid);
  EXPECT_STRNE(a->gpus[2].uuid, a->gpus[3].uuid);
  EXPECT_EQ(std::string(a->gpus[0].uuid).size(), 40u);
  EXPECT_LT(std::string(a->gpus[0].pci), std::string(a->gpus[1].pci));
}

}  // namespace
}  // namespace carma::simgpu
