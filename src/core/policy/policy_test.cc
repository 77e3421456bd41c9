#include "core/policy/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "core/values/task.h"

namespace carma::core {
namespace {

// A GPU of 40 000 MiB that holds one settled task of 10 000 MiB.
GpuView Busy() {
  return {.index = GpuIndex{3},
          .total_mib = 40'000,
          .free_mib = 30'000,
          .claimed_mib = 10'000,
          .sm_active = 0.5,
          .tasks = 1};
}
GpuView Empty() {
  return {.index = GpuIndex{3}, .total_mib = 40'000, .free_mib = 40'000, .sm_active = 0.0};
}
PolicyConfig Rules() {
  PolicyConfig config;
  config.margin_mib = 1'000;
  config.floor_mib = 5'000;
  return config;
}

struct Case {
  std::string name;
  std::function<void(PolicyConfig&, Need&, GpuView&)> change;
  Fit fit = Fit::kFits;
  ReasonCode code = ReasonCode::kNone;
};

void CheckCases(const GpuView& base, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    PolicyConfig config = Rules();
    Need need{.memory_mib = 10'000, .task = TaskId{7}};
    GpuView gpu = base;
    c.change(config, need, gpu);
    const Verdict verdict = CheckGuards(config, need, gpu);
    EXPECT_EQ(verdict.fit, c.fit) << c.name << ": " << *verdict.reason.text;
    EXPECT_EQ(verdict.reason.code, c.code) << c.name << ": " << *verdict.reason.text;
    EXPECT_EQ(verdict.reason.text->empty(), c.fit == Fit::kFits) << c.name;
  }
}

TEST(Guards, OnAGpuWithATask) {
  using C = PolicyConfig;
  CheckCases(
      Busy(),
      {{"fits", [](C&, Need&, GpuView&) {}},
       {"fits exactly", [](C&, Need& n, GpuView&) { n.memory_mib = 29'000; }},
       {"half a core does not matter if none is idle",
        [](C&, Need& n, GpuView& g) {
          n.uses_cpus = 0.5;
          g.idle_cpus = -1;
        }},
       {"more than half a core must wait if none is idle",
        [](C&, Need& n, GpuView& g) {
          n.uses_cpus = 0.6;
          g.idle_cpus = -1;
        },
        Fit::kNotNow, ReasonCode::kHostBusy},
       {"one MiB short must wait", [](C&, Need& n, GpuView&) { n.memory_mib = 29'001; },
        Fit::kNotNow, ReasonCode::kGpuMemory},
       {"larger than the GPU less the margin waits for an idle one",
        [](C&, Need& n, GpuView&) { n.memory_mib = 40'000; }, Fit::kNotNow, ReasonCode::kGpuMemory},
       {"larger than the GPU never fits", [](C&, Need& n, GpuView&) { n.memory_mib = 40'001; },
        Fit::kNever, ReasonCode::kNeverFits},
       {"a retry needs what it asks for, margin included",
        [](C&, Need& n, GpuView&) { n.retry_free_mib = 30'000; }},
       {"a retry that asks for more waits",
        [](C&, Need& n, GpuView&) { n.retry_free_mib = 30'001; }, Fit::kNotNow,
        ReasonCode::kGpuMemory},
       {"without an estimate the floor decides",
        [](C&, Need& n, GpuView& g) {
          n.memory_mib.reset();
          g.free_mib = 5'000;
        }},
       {"less than the floor must wait",
        [](C&, Need& n, GpuView& g) {
          n.memory_mib.reset();
          g.free_mib = 4'999;
        },
        Fit::kNotNow, ReasonCode::kGpuMemory},
       {"no floor, no condition",
        [](C& c, Need& n, GpuView& g) {
          n.memory_mib.reset();
          g.free_mib = 0;
          c.floor_mib = 0;
        }},
       {"at the cap", [](C&, Need&, GpuView& g) { g.sm_active = 0.80; }},
       {"above the cap", [](C&, Need&, GpuView& g) { g.sm_active = 0.801; }, Fit::kNotNow,
        ReasonCode::kSmBusy},
       {"no cap",
        [](C& c, Need&, GpuView& g) {
          c.sm_cap.reset();
          g.sm_active = 1.0;
        }},
       {"unknown activity", [](C&, Need&, GpuView& g) { g.sm_active.reset(); }, Fit::kNotNow,
        ReasonCode::kGpuHealth},
       {"unknown activity without a cap",
        [](C& c, Need&, GpuView& g) {
          c.sm_cap.reset();
          g.sm_active.reset();
        }},
       {"unknown activity alongside foreign processes only",
        [](C&, Need&, GpuView& g) {
          g.tasks = 0;
          g.foreign_processes = 1;
          g.sm_active.reset();
        }},
       {"poor health takes precedence over everything else",
        [](C&, Need& n, GpuView& g) {
          g.healthy = false;
          g.drained = true;
          n.memory_mib = 50'000;
        },
        Fit::kNotNow, ReasonCode::kGpuHealth},
       {"drained", [](C&, Need&, GpuView& g) { g.drained = true; }, Fit::kNotNow,
        ReasonCode::kDraining},
       {"kept for another task", [](C&, Need&, GpuView& g) { g.reserved_for = TaskId{8}; },
        Fit::kNotNow, ReasonCode::kRecoveryReserve},
       {"kept for this task", [](C&, Need&, GpuView& g) { g.reserved_for = TaskId{7}; }},
       {"held by an exclusive task", [](C&, Need&, GpuView& g) { g.exclusive_task = true; },
        Fit::kNotNow, ReasonCode::kExclusive},
       {"wanted for itself", [](C&, Need& n, GpuView&) { n.exclusive = true; }, Fit::kNotNow,
        ReasonCode::kExclusive},
       {"idle wanted", [](C&, Need& n, GpuView&) { n.idle_gpu = true; }, Fit::kNotNow,
        ReasonCode::kExclusive},
       {"mapper exclusive",
        [](C& c, Need& n, GpuView&) {
          c.mapper = "exclusive";
          n = NeedOf(c, TaskRequest{}, std::nullopt);
        },
        Fit::kNotNow, ReasonCode::kExclusive},
       {"as many tasks as allowed", [](C& c, Need&, GpuView&) { c.max_tasks_per_gpu = 1; },
        Fit::kNotNow, ReasonCode::kTasksPerGpu},
       {"not settled", [](C&, Need&, GpuView& g) { g.settled = false; }, Fit::kNotNow,
        ReasonCode::kWarmUp},
       {"not settled, and too little memory even then",
        [](C&, Need&, GpuView& g) {
          g.settled = false;
          g.free_mib = 1'000;
        },
        Fit::kNotNow, ReasonCode::kGpuMemory},
       {"an instance with a task", [](C&, Need&, GpuView& g) { g.mig = true; }, Fit::kNotNow,
        ReasonCode::kExclusive},
       {"a shared instance at its cap",
        [](C& c, Need&, GpuView& g) {
          g.mig = true;
          c.share_mig = true;
          g.sm_active = 0.4;
        }},
       {"a shared instance above its cap, which is that of streams",
        [](C& c, Need&, GpuView& g) {
          g.mig = true;
          c.share_mig = true;
          g.sm_active = 0.41;
        },
        Fit::kNotNow, ReasonCode::kSmBusy},
       {"as many tasks as may take turns on an instance",
        [](C& c, Need&, GpuView& g) {
          g.mig = true;
          c.share_mig = true;
          g.sm_active = 0.1;
          g.tasks = 3;
        },
        Fit::kNotNow, ReasonCode::kTasksPerGpu},
       {"a closed instance for a task of two GPUs",
        [](C& c, Need& n, GpuView& g) {
          g.mig = true;
          g.healthy = false;
          c.share_mig = true;
          n.gpus = 2;
        },
        Fit::kNever, ReasonCode::kMigInstance},
       {"a share alongside others that fill the GPU",
        [](C&, Need& n, GpuView& g) {
          n.sm_share = 0.3;
          g.sm_shares = 0.7;
        }},
       {"ten shares of a tenth",
        [](C&, Need& n, GpuView& g) {
          n.sm_share = 0.1;
          for (int i = 0; i < 9; ++i) g.sm_shares += 0.1;
        }},
       {"a share that does not fit",
        [](C&, Need& n, GpuView& g) {
          n.sm_share = 0.31;
          g.sm_shares = 0.7;
        },
        Fit::kNotNow, ReasonCode::kSmBusy},
       {"no share beside others that fill the GPU", [](C&, Need&, GpuView& g) { g.sm_shares = 1; }},
       {"a share without an SM cap",
        [](C& c, Need& n, GpuView& g) {
          c.sm_cap.reset();
          n.sm_share = 1;
          g.sm_shares = 0.01;
        },
        Fit::kNotNow, ReasonCode::kSmBusy}});
}

TEST(Guards, OnAnEmptyGpu) {
  using C = PolicyConfig;
  CheckCases(
      Empty(),
      {{"the margin is waived", [](C&, Need& n, GpuView&) { n.memory_mib = 40'000; }},
       {"memory kept by the driver does not count",
        [](C&, Need& n, GpuView& g) {
          n.memory_mib = 40'000;
          g.foreign_mib = 512;
          g.free_mib = 39'488;
        }},
       {"memory of other processes counts",
        [](C&, Need& n, GpuView& g) {
          n.memory_mib = 40'000;
          g.foreign_mib = 600;
          g.free_mib = 39'400;
        },
        Fit::kNotNow, ReasonCode::kGpuMemory},
       {"the floor is waived",
        [](C& c, Need& n, GpuView&) {
          n.memory_mib.reset();
          c.floor_mib = 50'000;
        }},
       {"its window remembers the last task", [](C&, Need&, GpuView& g) { g.sm_active = 1.0; }},
       {"exclusive", [](C&, Need& n, GpuView&) { n.exclusive = true; }},
       {"a foreign process is a neighbour",
        [](C&, Need& n, GpuView& g) {
          n.exclusive = true;
          g.foreign_processes = 1;
        },
        Fit::kNotNow, ReasonCode::kExclusive},
       {"without waive_on_idle all conditions apply",
        [](C& c, Need&, GpuView& g) {
          c.waive_on_idle = false;
          g.sm_active = 1.0;
        },
        Fit::kNotNow, ReasonCode::kSmBusy},
       {"except to tasks that ask for an idle GPU",
        [](C& c, Need& n, GpuView& g) {
          c.waive_on_idle = false;
          n.idle_gpu = true;
          g.sm_active = 1.0;
        }},
       {"larger than the GPU", [](C&, Need& n, GpuView&) { n.memory_mib = 40'001; }, Fit::kNever,
        ReasonCode::kNeverFits},
       {"an instance", [](C&, Need&, GpuView& g) { g.mig = true; }},
       {"an instance with a foreign process",
        [](C&, Need&, GpuView& g) {
          g.mig = true;
          g.foreign_processes = 1;
        },
        Fit::kNotNow, ReasonCode::kExclusive},
       {"all SMs", [](C&, Need& n, GpuView&) { n.sm_share = 1; }}});
}

std::vector<std::uint32_t> Order(std::string_view mapper, const std::vector<GpuView>& eligible) {
  const std::unique_ptr<Mapper> made = FindMapper(mapper)->make({});
  std::vector<GpuView> order = eligible;
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](const GpuView& gpu) { return made->Score({}, gpu); });
  std::vector<std::uint32_t> gpus;
  for (const GpuView& gpu : order) gpus.push_back(Number(gpu.index));
  return gpus;
}

TEST(Mappers, RankByTheirScoresAndThenByIndex) {
  const std::vector<GpuView> eligible{
      {.index = GpuIndex{0}, .free_mib = 20, .sm_active = 0.4, .tasks = 1},
      {.index = GpuIndex{2}, .free_mib = 30, .sm_active = 0.2, .tasks = 1},
      {.index = GpuIndex{3}, .free_mib = 30, .sm_active = 0.4, .tasks = 1},
      {.index = GpuIndex{5}, .free_mib = 10, .sm_active = 0.9, .tasks = 0}};
  using Gpus = std::vector<std::uint32_t>;
  EXPECT_EQ(Order("first-fit", eligible), (Gpus{0, 2, 3, 5}));
  EXPECT_EQ(Order("exclusive", eligible), (Gpus{0, 2, 3, 5}));
  EXPECT_EQ(Order("magm", eligible), (Gpus{2, 3, 0, 5}));
  EXPECT_EQ(Order("worst-fit", eligible), (Gpus{2, 3, 0, 5}));
  EXPECT_EQ(Order("best-fit", eligible), (Gpus{5, 0, 2, 3}));
  EXPECT_EQ(Order("lug", eligible), (Gpus{5, 2, 0, 3}));  // GPU 5 has no task
  EXPECT_EQ(Order("mug", eligible), (Gpus{0, 3, 2, 5}));
}

TEST(Mappers, RoundRobinContinuesAfterTheLastPlacement) {
  const std::unique_ptr<Mapper> ring = FindMapper("rr")->make({});
  const std::vector<GpuView> eligible{
      {.index = GpuIndex{0}}, {.index = GpuIndex{1}}, {.index = GpuIndex{3}}};
  const auto first = [&] {
    return Number(std::ranges::max(eligible, std::less<>(), [&](const GpuView& gpu) {
                    return ring->Score({}, gpu);
                  }).index);
  };
  EXPECT_EQ(first(), 0U);
  EXPECT_EQ(first(), 0U);  // scoring does not advance the ring
  ring->Placed(std::vector<Placement>{{GpuIndex{0}, 0}, {GpuIndex{1}, 0}});
  EXPECT_EQ(first(), 3U);
  ring->Placed(std::vector<Placement>{{GpuIndex{3}, 0}});
  EXPECT_EQ(first(), 0U);
}

TEST(Mappers, ByWorkPrefersMoreWorkAtLowerCost) {
  const std::unique_ptr<Mapper> by_work = FindMapper("by-work")->make({});
  const auto score = [&](const Need& need, const GpuView& gpu) {
    return by_work->Score(need, gpu);
  };
  const std::vector<Neighbour> quiet{{.load = {0.2, 0.5, 0.1}}}, loud{{.load = {0.9, 0.5, 0.8}}};
  GpuView empty{.total_mib = 40'000, .free_mib = 20'000};
  GpuView with_quiet = empty, with_loud = empty;
  const auto put = [](GpuView& gpu, const std::vector<Neighbour>& residents) {
    const ThroughputEstimate outlook =
        ThroughputOf(residents, nullptr, SaturationOf({}, SharingMethod::kMps));
    gpu.residents = residents;
    gpu.delivered = outlook.delivered;
    gpu.slowest = outlook.slowest;
  };
  put(with_quiet, quiet);
  put(with_loud, loud);
  const Need need{.memory_mib = 10'000, .load = {.load = {0.5, 0.5, 0.4}}};
  EXPECT_GT(score(need, empty), score(need, with_quiet));
  EXPECT_GT(score(need, with_quiet), score(need, with_loud));
  Need small = need, old = need, brief = need;
  small.memory_mib = 1'000;
  old.waited = Duration{3'600'000};
  brief.alone = Duration{60'000};
  EXPECT_GT(score(need, with_quiet), score(small, with_quiet));  // large tasks first
  EXPECT_GT(score(old, with_quiet), score(need, with_quiet));
  EXPECT_GT(score(brief, with_loud), score(need, with_loud));  // a slowdown costs brief tasks less
  GpuView tight = with_quiet;
  tight.free_mib = 10'000;
  EXPECT_GT(score(need, tight), score(need, with_quiet));
}

TEST(Mappers, AreFoundByNameAndAlias) {
  for (const MapperEntry& entry : Mappers()) {
    EXPECT_EQ(FindMapper(entry.name), &entry);
    if (!entry.alias.empty()) {
      EXPECT_EQ(FindMapper(entry.alias), &entry);
    }
    EXPECT_NE(entry.make({}), nullptr);
  }
  EXPECT_EQ(FindMapper(""), nullptr);
  EXPECT_EQ(FindMapper("best"), nullptr);
}

TEST(Validate, NamesTheWrongField) {
  EXPECT_TRUE(Validate({}));
  struct Bad {
    std::string field;
    std::function<void(PolicyConfig&)> change;
  };
  const Bad cases[] = {
      {"mapper", [](PolicyConfig& c) { c.mapper = "magic"; }},
      {"sm_cap", [](PolicyConfig& c) { c.sm_cap = 80; }},
      {"sm_cap", [](PolicyConfig& c) { c.sm_cap = 0; }},
      {"sm_cap", [](PolicyConfig& c) { c.sm_cap = std::numeric_limits<double>::quiet_NaN(); }},
      {"margin_mib", [](PolicyConfig& c) { c.margin_mib = -1; }},
      {"floor_mib", [](PolicyConfig& c) { c.floor_mib = std::int64_t{1} << 40; }},
      {"settle_timeout", [](PolicyConfig& c) { c.settle_timeout = Duration{-1}; }},
      {"stale_after", [](PolicyConfig& c) { c.stale_after = Duration{0}; }},
      {"max_tasks_per_gpu", [](PolicyConfig& c) { c.max_tasks_per_gpu = 0; }},
      {"max_launch_failures", [](PolicyConfig& c) { c.max_launch_failures = -1; }},
      {"recovery_backoff",
       [](PolicyConfig& c) { c.recovery_backoff = std::chrono::hours(99'999); }},
  };
  for (const Bad& bad : cases) {
    PolicyConfig config;
    bad.change(config);
    const auto valid = Validate(config);
    ASSERT_FALSE(valid) << bad.field;
    EXPECT_EQ(valid.error().code, ErrorCode::kInvalid);
    EXPECT_TRUE(valid.error().message.starts_with(bad.field)) << valid.error().message;
  }
}

TEST(NeedOf, ARetriedTaskNeedsMore) {
  TaskRecord task;
  task.id = TaskId{7};
  task.request = TaskRequest{.gpus = 2, .exclusive = true, .sm_share = 0.5};
  task.estimate = Estimate{.peak_mib = 1'000, .method = "given"};
  const Need fresh = NeedOf({}, task.request, task.estimate);
  EXPECT_EQ(fresh.memory_mib, 1'000);
  EXPECT_EQ(fresh.gpus, 2);
  EXPECT_EQ(fresh.sm_share, 0.5);
  EXPECT_TRUE(fresh.exclusive);
  EXPECT_FALSE(fresh.idle_gpu);
  task.retry_free_mib = 5'000;
  task.retry_on_idle_gpu = true;
  const Need again = NeedOf({.use_given_memory = false}, task);
  EXPECT_EQ(again.memory_mib, std::nullopt);
  EXPECT_EQ(again.retry_free_mib, 5'000);
  EXPECT_TRUE(again.idle_gpu);
  EXPECT_EQ(again.task, TaskId{7});
}

TEST(Guards, TasksThatTakeTurnsShareOnlyLittleUsedGpus) {
  PolicyConfig config = Rules();
  config.sm_cap.reset();
  Need need{.memory_mib = 1'000, .load = {.load = {0.5, 0.5, 0.4, 7}}, .task = TaskId{7}};
  std::vector<Neighbour> there{{.load = {0.5, 0.5, 0.4, 8}}};
  GpuView gpu = Busy();
  gpu.residents = there;
  gpu.delivered = kTurnsBelow;
  gpu.sm_active.reset();
  const Verdict waits = CheckGuards(config, need, gpu);
  EXPECT_EQ(waits.fit, Fit::kNotNow);
  EXPECT_EQ(waits.reason.code, ReasonCode::kSmBusy);
  EXPECT_EQ(
      *waits.reason.text,
      "GPU 3 is 40 % busy, and this task would take turns with the tasks there (other users' or "
      "multi-GPU tasks); it may join once usage drops below 40 %, or after waiting 6:00:00.");
  gpu.delivered = 0.39;
  EXPECT_EQ(FitOf(config, need, gpu), Fit::kFits);
  gpu.delivered = 0.9;
  gpu.sm_active = 0.39;
  EXPECT_EQ(FitOf(config, need, gpu), Fit::kFits) << "measured use overrides a prediction";
  gpu.sm_active = 0.5;
  need.takes_turns = true;
  EXPECT_EQ(FitOf(config, need, gpu), Fit::kFits) << "it has waited long enough";
  need.takes_turns = false;
  there.front().load.user = 7;
  EXPECT_EQ(FitOf(config, need, gpu), Fit::kFits) << "tasks of one user compute side by side";
}

TEST(Guards, TasksOnASharedInstanceTakeTurnsEvenUnderMps) {
  PolicyConfig config = Rules();
  config.sharing = SharingMethod::kMps;
  config.share_mig = true;
  // Side by side, each task would take 1.2 times as long; in turns, 1.3 times.
  Need need{.memory_mib = 1'000,
            .load = {.load = {0.3, 0.5, 0.4, 7}, .max_slowdown = 1.25},
            .task = TaskId{7}};
  GpuView gpu = Busy();
  gpu.sm_active = 0.3;
  std::vector<Neighbour> there{OnPart({.load = {0.3, 0.5, 0.4, 7}}, gpu)};
  gpu.residents = there;
  EXPECT_EQ(FitOf(config, need, gpu), Fit::kFits);
  gpu.mig = true;
  there = {OnPart({.load = {0.3, 0.5, 0.4, 8}}, gpu)};
  gpu.residents = there;
  gpu.outlook.Forget();
  EXPECT_EQ(CheckGuards(config, need, gpu).reason.code, ReasonCode::kSlowdown);
  need.load.max_slowdown = 1.5;
  EXPECT_EQ(FitOf(config, need, gpu), Fit::kFits) << "also beside another user's task";
}

TEST(Mappers, OnlyExclusiveNeverShares) {
  for (const MapperEntry& entry : Mappers()) {
    EXPECT_EQ(entry.shares, entry.name != kNeverSharing);
    EXPECT_EQ(Shares({.mapper = std::string(entry.name)}), entry.shares);
  }
}

TEST(Neighbours, ATaskOfSeveralGpusIsNoMpsClientIfEachGpuHasAServer) {
  PolicyConfig config = Rules();
  config.sharing = SharingMethod::kMps;
  const auto user = [&config](int gpus) {
    return NeighbourOf(config, {.gpus = gpus, .uid = 7}, {}).load.user;
  };
  EXPECT_EQ(user(2), 7u) << "one server for all GPUs";
  config.gangs_take_turns = true;
  EXPECT_EQ(user(1), 7u);
  EXPECT_EQ(user(2), kNoMpsClient);
}

}  // namespace
}  // namespace carma::core
