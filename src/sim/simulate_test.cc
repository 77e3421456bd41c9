#include "sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "sim/mig.h"

namespace carma::sim {
namespace {

using base::Duration;
using ::testing::HasSubstr;

trace::Workload MakeWorkload(std::string id, int gpus, double solo_s, double u, std::int64_t mib) {
  trace::Workload workload{.id = std::move(id), .gpus = gpus, .solo_s = solo_s};
  workload.sm_active.assign(static_cast<std::size_t>(gpus), u);
  workload.memory_mib.assign(static_cast<std::size_t>(gpus), mib);
  workload.mps_sensitivity = 0.5;
  workload.mps_pressure = u;
  return workload;
}

Cluster MakeWorld(std::string_view text) {
  return *ParseCluster(text);
}

RunOptions Immediate() {
  RunOptions options;
  options.policy.sm_cap.reset();
  options.policy.settle = false;
  options.policy.margin_mib = 0;
  options.estimates.source = "oracle";
  options.record = true;
  return options;
}

RunResult Play(const Cluster& cluster, const std::vector<Arrival>& arrivals,
               const RunOptions& options) {
  base::Result<RunResult> result = Simulate(cluster, arrivals, options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *std::move(result) : RunResult{};
}

// The project's own trace on the project's own catalogue.
class Demo {
 public:
  Demo() : catalogue_(*trace::Catalogue::BuiltIn()), trace_(*trace::BuiltInDemo60()) {
    arrivals_ = *Arrivals(trace_, catalogue_, "demo60");
  }
  const std::vector<Arrival>& arrivals() const { return arrivals_; }

 private:
  trace::Catalogue catalogue_;
  trace::TaskTrace trace_;
  std::vector<Arrival> arrivals_;
};

// A load in which everything happens: queues, retries, tasks of two GPUs.
std::vector<Arrival> Crowd(const std::vector<trace::Workload>& workloads, int tasks) {
  base::Rng rng(11);
  std::vector<Arrival> arrivals;
  Duration at{0};
  for (int i = 0; i < tasks; ++i) {
    at += Duration(static_cast<std::int64_t>(rng.Exponential(30'000)));
    const trace::Workload& workload = workloads[rng.Below(workloads.size())];
    arrivals.push_back({at, &workload, 60 + rng.Exponential(600)});
  }
  return arrivals;
}

std::vector<trace::Workload> Mixed() {
  std::vector<trace::Workload> workloads{
      MakeWorkload("small", 1, 300, 0.3, 4'000), MakeWorkload("large", 1, 900, 0.9, 26'000),
      MakeWorkload("two", 2, 600, 0.6, 15'000), MakeWorkload("medium", 1, 500, 0.6, 12'000)};
  return workloads;
}

bool SameTasks(const report::RunRecord& a, const report::RunRecord& b) {
  return a.from == b.from && a.to == b.to && a.tasks == b.tasks;
}

Totals WithoutSamples(Totals totals) {
  totals.samples = 0;
  return totals;
}

TEST(Simulate, OneTaskAlone) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.5, 10'000);
  const RunResult run = Play(MakeWorld("4xA100-40GB"), {{Duration{0}, &workload}}, Immediate());
  // 14 s until the first allocation, then full speed.
  EXPECT_DOUBLE_EQ(run.totals.makespan_s, 1'014);
  EXPECT_DOUBLE_EQ(run.totals.execution_s, 1'014);
  EXPECT_DOUBLE_EQ(run.totals.waiting_s, 0);
  EXPECT_DOUBLE_EQ(run.totals.slowdown, 1.0);
  EXPECT_EQ(run.totals.succeeded, 1);
  const double active = 1 - std::pow(0.5, 0.95);
  EXPECT_NEAR(run.totals.sm_active, active * 1'000 / 1'014 / 4, 1e-9);
  EXPECT_NEAR(run.totals.memory_mib, 10'000.0 * 1'000 / 1'014 / 4, 1e-6);
  EXPECT_NEAR(run.totals.energy_j, PowerW({}, active) * 1'000 + PowerW({}, 0) * (3 * 1'014 + 14),
              1);
  ASSERT_EQ(run.record->tasks.size(), 1u);
  EXPECT_EQ(run.record->tasks[0].attempts[0].gpus, std::vector<int>{0});
}

TEST(Simulate, ATaskThatStaysAloneRunsWithoutMps) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.5, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  const RunResult run = Play(MakeWorld("A100-40GB"), {{Duration{0}, &workload}}, options);
  EXPECT_NEAR(run.totals.sm_active, 0.5 * 1'000 / 1'014, 1e-9);
  // The same as where nobody shares at all, tasks of several GPUs too.
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 40);
  const Totals by_mapper = Play(MakeWorld("4xA100-40GB"), arrivals, options).totals;
  options.collocation = core::SharingMethod::kAlone;
  EXPECT_EQ(Play(MakeWorld("4xA100-40GB"), arrivals, options).totals, by_mapper);
}

TEST(Simulate, TwoTasksSlowEachOtherDownOnlyWhileBothAreThere) {
  const trace::Workload one = MakeWorkload("one", 1, 1'000, 0.4, 10'000);
  const trace::Workload two = MakeWorkload("two", 1, 1'500, 0.3, 10'000);
  const RunResult run =
      Play(MakeWorld("A100-40GB"), {{Duration{0}, &one}, {Duration{0}, &two}}, Immediate());
  // 1 + s * p: 1.15 and 1.2 for as long as the first lives, then the second is alone.
  const double first_s = 1'000 * 1.15;
  const double second_s = first_s + (1'500 - first_s / 1.2);
  EXPECT_NEAR(base::Seconds(*run.record->tasks[0].ended - run.record->from), 14 + first_s, 0.002);
  EXPECT_NEAR(base::Seconds(*run.record->tasks[1].ended - run.record->from), 14 + second_s, 0.002);
}

TEST(Simulate, ATaskOnTwoGpusGoesAtThePaceOfTheSlowerOne) {
  const trace::Workload wide = MakeWorkload("wide", 2, 1'000, 0.2, 5'000);
  const trace::Workload other = MakeWorkload("other", 1, 5'000, 0.6, 5'000);
  RunOptions options = Immediate();
  options.policy.mapper = "first-fit";
  // Both on GPU 0; GPU 1 would let the wide one run at full speed.
  const RunResult run =
      Play(MakeWorld("2xA100-40GB"), {{Duration{0}, &wide}, {Duration{0}, &other}}, options);
  EXPECT_NEAR(base::Seconds(*run.record->tasks[0].ended - run.record->from), 14 + 1'000 * 1.3,
              0.002);
}

TEST(Simulate, AFasterGpuTakesLess) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.5, 10'000);
  const RunResult run = Play(MakeWorld("H100-80GB"), {{Duration{0}, &workload}}, Immediate());
  EXPECT_NEAR(run.totals.makespan_s, 14 + 1'000 / 2.61, 0.002);
  EXPECT_NEAR(run.totals.slowdown, 1.0, 1e-5);
  EXPECT_NEAR(*run.record->tasks[0].solo_s, run.totals.makespan_s, 0.002);
}

TEST(Simulate, ANewcomerThatDoesNotFitCrashesAndComesBack) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 25'000);
  RunOptions options = Immediate();
  options.estimates.source = "none";
  options.policy.floor_mib = 0;
  const RunResult run = Play(MakeWorld("A100-40GB"),
                             {{Duration{0}, &workload}, {Duration{1'000}, &workload}}, options);
  const report::RunTask& second = run.record->tasks[1];
  ASSERT_GE(second.attempts.size(), 2u);
  EXPECT_EQ(second.attempts[0].end, report::AttemptEnd::kOutOfMemory);
  // 14 s of load, then 8 s until the process has ended.
  EXPECT_EQ(second.attempts[0].ended - second.attempts[0].started, Duration{22'000});
  EXPECT_EQ(second.attempts.back().end, report::AttemptEnd::kSucceeded);
  EXPECT_EQ(run.totals.succeeded, 2);
  EXPECT_EQ(run.totals.oom_crashes, static_cast<std::int64_t>(second.attempts.size()) - 1);
}

TEST(Simulate, ARampCanFailLate) {
  const trace::Workload small = MakeWorkload("small", 1, 5'000, 0.3, 20'000);
  const trace::Workload large = MakeWorkload("large", 1, 1'000, 0.3, 24'000);
  RunOptions options = Immediate();
  options.estimates.source = "none";
  options.policy.floor_mib = 0;
  options.memory.first_share = 0.5;
  options.memory.ramp = Duration{400'000};
  const RunResult run =
      Play(MakeWorld("A100-40GB"), {{Duration{0}, &small}, {Duration{500'000}, &large}}, options);
  const report::Attempt& late = run.record->tasks[1].attempts[0];
  EXPECT_EQ(late.end, report::AttemptEnd::kOutOfMemory);
  // 20 000 MiB are taken, 20 536 are left: the fourth step of the ramp (21 000 MiB at 3/4) is too
  // much.
  EXPECT_EQ(late.ended - late.started, Duration{14'000 + 300'000 + 8'000});
}

TEST(Simulate, WhoGrowsOnAFullGpuCrashesNotWhoHoldsWhatItNeeds) {
  const trace::Workload steady = MakeWorkload("steady", 1, 3'000, 0.3, 20'000);
  const trace::Workload spiky = MakeWorkload("spiky", 1, 9'000, 0.3, 20'000);
  RunOptions options = Immediate();
  options.memory.spike_share = 0.5;
  options.memory.spike_every = Duration{3'600'000};
  const RunResult run =
      Play(MakeWorld("A100-40GB"), {{Duration{0}, &steady}, {Duration{0}, &spiky}}, options);
  EXPECT_EQ(run.record->tasks[0].attempts.size(), 1u);
  ASSERT_GE(run.record->tasks[1].attempts.size(), 1u);
  // Beside the other a spike does not fit; alone it does, and is over half a minute later.
  EXPECT_EQ(run.totals.oom_crashes,
            static_cast<std::int64_t>(run.record->tasks[1].attempts.size()) - 1);
  EXPECT_EQ(run.totals.succeeded, 2);
}

TEST(Simulate, TheLimitOfAnMpsServerEndsWhoWasPromisedTooLittle) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Immediate();
  options.estimates.bias = -0.5;  // 6065 MiB are promised
  const std::vector<Arrival> one{{Duration{0}, &workload}};
  EXPECT_EQ(Play(MakeWorld("A100-40GB"), one, options).totals.oom_crashes, 0);
  options.mps_memory_limit = true;
  const RunResult run = Play(MakeWorld("A100-40GB"), one, options);
  // The next attempt may hold more.
  EXPECT_EQ(run.totals.oom_crashes, 1);
  EXPECT_EQ(run.totals.succeeded, 1);
  options.policy.margin_mib = 4'000;
  EXPECT_EQ(Play(MakeWorld("A100-40GB"), one, options).totals.oom_crashes, 0);
  options.policy.margin_mib = 0;
  options.collocation = core::SharingMethod::kStreams;
  EXPECT_EQ(Play(MakeWorld("A100-40GB"), one, options).totals.oom_crashes, 0) << "nothing enforces";
}

// Two tasks of 1000 s take turns of 500 s on one GPU.
RunOptions Slots() {
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.checkpoints.every = Duration{300'000};
  options.time_slot = Duration{500'000};
  return options;
}

TEST(Simulate, AStoppedTaskGoesOnFromItsLastCheckpoint) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  const std::vector<Arrival> two(2, {Duration{0}, &workload});
  const RunResult run = Play(MakeWorld("A100-40GB"), two, Slots());
  EXPECT_EQ(run.totals.succeeded, 2);
  const report::RunTask& first = run.record->tasks[0];
  ASSERT_EQ(first.attempts.size(), 3u);
  EXPECT_EQ(first.attempts[0].end, report::AttemptEnd::kStopped);
  EXPECT_EQ(first.attempts[0].ended - first.attempts[0].started, Duration{502'000});
  // 300 s were kept; of the second slot's 486 s another 300 s are; 400 s are left for the third.
  EXPECT_EQ(first.attempts[1].end, report::AttemptEnd::kStopped);
  EXPECT_EQ(first.attempts[2].ended - first.attempts[2].started, Duration{14'000 + 400'000});
  EXPECT_NEAR(*first.solo_s, 414, 1e-9) << "of the attempt that succeeded";
  EXPECT_NEAR(*first.whole_solo_s, 1'014, 1e-9);
  EXPECT_NEAR(run.totals.slowdown, 1, 1e-9);
  // They take turns.
  EXPECT_GE(run.record->tasks[1].attempts[0].started, first.attempts[0].ended);
  EXPECT_GE(first.attempts[1].started, run.record->tasks[1].attempts[0].ended);
}

TEST(Simulate, ACheckpointCostsTimeAndOneOnStopLosesNothing) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Immediate();
  options.checkpoints = {.every = Duration{300'000}, .cost = Duration{20'000}};
  const std::vector<Arrival> one{{Duration{0}, &workload}};
  // At 300, 600 and 900 s of its running time.
  EXPECT_NEAR(Play(MakeWorld("A100-40GB"), one, options).totals.makespan_s, 14 + 1'000 + 60, 0.01);

  options = Slots();
  options.checkpoints = {.cost = Duration{20'000}, .on_stop = true};
  const std::vector<Arrival> two(2, {Duration{0}, &workload});
  const RunResult run = Play(MakeWorld("A100-40GB"), two, options);
  const report::RunTask& first = run.record->tasks[0];
  ASSERT_EQ(first.attempts.size(), 3u);
  EXPECT_EQ(first.attempts[0].ended - first.attempts[0].started, Duration{522'000});
  EXPECT_EQ(first.attempts[2].ended - first.attempts[2].started, Duration{14'000 + 28'000});
}

TEST(Simulate, AtTheEndOfItsSlotATaskSavesAndMakesRoom) {
  const trace::Workload work = MakeWorkload("long", 1, 10'000, 0.3, 10'000);
  const trace::Workload look = MakeWorkload("short", 1, 100, 0.3, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.policy.slots = {.length = Duration{1'000'000}, .notice = Duration{100'000}};
  options.checkpoints = {.cost = Duration{20'000}, .on_stop = true};
  const std::vector<Arrival> two{{Duration{0}, &work}, {Duration{500'000}, &look}};
  const RunResult run = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(run.totals.succeeded, 2);
  const report::RunTask& first = run.record->tasks[0];
  ASSERT_EQ(first.attempts.size(), 2u);
  // Asked 900 s after its start, it saves for 20 s and takes 2 to end.
  EXPECT_EQ(first.attempts[0].ended - first.attempts[0].started, Duration{922'000});
  EXPECT_EQ(first.attempts[1].ended - first.attempts[1].started,
            Duration{14'000 + 10'000'000 - (900'000 - 14'000)});
  EXPECT_EQ(first.lost_s, 20 + 14);
  EXPECT_EQ(run.record->tasks[1].attempts.size(), 1u);
  EXPECT_FALSE(run.record->tasks[1].lost_s);

  // Who saves now and then is ended, and does the rest again; who never does stays.
  options.checkpoints = {.every = Duration{300'000}};
  const RunResult again = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(again.record->tasks[0].attempts[0].ended - again.record->tasks[0].attempts[0].started,
            Duration{1'002'000});
  EXPECT_EQ(again.record->tasks[0].lost_s, 14 + 86);
  options.checkpoints = {};
  const RunResult stays = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(stays.record->tasks[0].attempts.size(), 1u);
}

TEST(Simulate, AClassThatPreemptsHasAPlaceAtOnce) {
  const trace::Workload work = MakeWorkload("long", 1, 10'000, 0.3, 10'000);
  const trace::Workload look = MakeWorkload("short", 1, 100, 0.3, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.policy.classes = {{.name = "urgent", .priority = 10, .preempts = true},
                            {.name = "spare", .priority = -10, .preemptible = true}};
  options.checkpoints = {.cost = Duration{20'000}, .on_stop = true};
  const std::vector<Arrival> two{{.at = Duration{0}, .workload = &work, .qos = "spare"},
                                 {.at = Duration{500'000}, .workload = &look, .qos = "urgent"}};
  const RunResult run = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(run.record->tasks[0].attempts.size(), 2u);
  // It saves for 20 s and takes 2 to end.
  EXPECT_EQ(run.record->tasks[1].attempts[0].started,
            run.record->tasks[1].submitted + Duration{22'000});
  options.policy.classes.clear();
  const auto unknown = Simulate(MakeWorld("A100-40GB"), two, options);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("qos: expected one of normal"));
}

TEST(Simulate, WaitingTasksAreToldAboutWhenTheyStart) {
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 300);
  for (const std::string_view mapper : {"exclusive", "magm"}) {
    RunOptions options = Immediate();
    options.policy.mapper = mapper;
    options.estimates.profiles = EstimateOptions::Profiles::kMeasured;
    options.estimates.durations = true;
    double waited_s = 0, wrong_s = 0;
    int told = 0;
    options.on_start = [&](const ToldStart& start) {
      ASSERT_TRUE(start.told.likely);
      ++told;
      waited_s += base::Seconds(start.started - start.submitted);
      wrong_s += std::abs(base::Seconds(*start.told.likely - start.started));
    };
    Play(MakeWorld("4xA100-40GB"), arrivals, options);
    EXPECT_GT(told, 150) << mapper;
    EXPECT_LT(wrong_s, 0.2 * waited_s)
        << mapper << ": " << wrong_s / told << " s of " << waited_s / told;
  }
}

TEST(Simulate, WhoIsEndedEachTurnAndNeverSavesEndsSomeDay) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.policy.slots = {.length = Duration{100'000},
                          .notice = Duration{10'000},
                          .without_checkpoint = core::WithoutCheckpoint::kEnd};
  const std::vector<Arrival> two(2, {Duration{0}, &workload});
  const RunResult run = Play(MakeWorld("A100-40GB"), two, options);
  EXPECT_EQ(run.totals.succeeded, 2);
  // Turns of 100, 100, 200, 400, 800 and 1600 s.
  EXPECT_EQ(run.record->tasks[0].attempts.size(), 6u);
}

TEST(Simulate, ARunInWhichNothingGetsDoneEndsWithWhatToChange) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Immediate();
  options.policy.mapper = "exclusive";
  options.policy.slots = {.length = Duration{10'000}, .notice = Duration{1'000}};
  options.checkpoints = {.on_stop = true};  // that is: once it has loaded
  const std::vector<Arrival> two(2, {Duration{0}, &workload});
  const auto run = Simulate(MakeWorld("A100-40GB"), two, options);
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, HasSubstr("nothing gets done: the last 1201 starts"));
  EXPECT_THAT(run.error().message, HasSubstr("slots.length"));
}

TEST(Simulate, ATaskThatWouldLoseEverythingIsNotSentBack) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Slots();
  options.checkpoints = {};
  const RunResult run =
      Play(MakeWorld("A100-40GB"), std::vector<Arrival>(2, {Duration{0}, &workload}), options);
  EXPECT_EQ(run.totals.attempts, 2);
}

TEST(Simulate, ACrashLosesWhatCameAfterTheLastCheckpoint) {
  const trace::Workload small = MakeWorkload("small", 1, 5'000, 0.0, 20'000);
  const trace::Workload large = MakeWorkload("large", 1, 1'000, 0.3, 24'000);
  RunOptions options = Immediate();
  options.estimates.source = "none";
  options.policy.floor_mib = 0;
  options.memory.first_share = 0.5;
  options.memory.ramp = Duration{400'000};
  options.checkpoints.every = Duration{200'000};
  const RunResult run =
      Play(MakeWorld("A100-40GB"), {{Duration{0}, &small}, {Duration{500'000}, &large}}, options);
  const std::vector<report::Attempt>& attempts = run.record->tasks[1].attempts;
  EXPECT_EQ(attempts[0].end, report::AttemptEnd::kOutOfMemory);
  EXPECT_EQ(attempts.back().end, report::AttemptEnd::kSucceeded);
  EXPECT_LT(attempts.back().ended - attempts.back().started, Duration{1'000'000});
}

TEST(Simulate, FragmentsAreLostToEverybody) {
  const trace::Workload half = MakeWorkload("half", 1, 1'000, 0.3, 20'000);
  RunOptions options = Immediate();
  options.estimates.source = "none";
  options.policy.floor_mib = 0;
  const std::vector<Arrival> both{{Duration{0}, &half}, {Duration{0}, &half}};
  EXPECT_EQ(Play(MakeWorld("A100-40GB"), both, options).totals.oom_crashes, 0);
  options.memory.fragmentation_mib = 1'000;
  EXPECT_GE(Play(MakeWorld("A100-40GB"), both, options).totals.oom_crashes, 1);
}

TEST(Simulate, InstancesDoNotDisturbEachOther) {
  const trace::Workload small = MakeWorkload("small", 1, 1'000, 0.3, 4'000);
  RunOptions options = Immediate();
  options.collocation = core::SharingMethod::kMig;
  options.mig_instances = 7;
  options.policy.mapper = "exclusive";
  const RunResult run =
      Play(MakeWorld("A100-40GB"), std::vector<Arrival>(7, {Duration{0}, &small}), options);
  // Published: seven of the smallest tasks take 2 to 2.5 times as long.
  EXPECT_NEAR(run.totals.makespan_s, 14 + 1'000 * 0.3 * 7, 0.01);
  EXPECT_EQ(run.record->gpus.size(), 1u);
  EXPECT_NEAR(run.totals.sm_active, 0.99 * 2'100 / 2'114, 1e-6);
  EXPECT_DOUBLE_EQ(MigSpeed(*FindMigProfile(3), 0.2), 1.0);
  EXPECT_EQ(FindMigProfile(4), nullptr);
}

TEST(Simulate, AnInstanceTakesOneTaskUnlessItIsShared) {
  const trace::Workload small = MakeWorkload("small", 1, 1'000, 0.2, 4'000);
  RunOptions options = Immediate();
  options.collocation = core::SharingMethod::kMig;
  options.mig_instances = 2;
  options.policy.margin_mib = 0;
  options.policy.sm_cap.reset();
  const std::vector<Arrival> four(4, {Duration{0}, &small});
  // Two wait for the two before them.
  EXPECT_GT(Play(MakeWorld("A100-40GB"), four, options).totals.waiting_s, 500);
  options.policy.share_mig = true;
  EXPECT_LT(Play(MakeWorld("A100-40GB"), four, options).totals.waiting_s, 100);
}

TEST(Simulate, DataLoadersShareTheServersCores) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 4'000);
  RunOptions options = Immediate();
  options.host = {.cores = 16, .cores_per_gpu_task = 8};
  const std::vector<Arrival> four(4, {Duration{0}, &workload});
  options.policy.mapper = "exclusive";
  // Four tasks want 32 cores of 16.
  EXPECT_NEAR(Play(MakeWorld("4xA100-40GB"), four, options).totals.makespan_s, 2'014, 0.01);
}

TEST(Simulate, EachTaskWantsItsOwnCores) {
  trace::Workload hungry = MakeWorkload("hungry", 1, 1'000, 0.3, 4'000);
  hungry.cpus = 24;
  trace::Workload frugal = MakeWorkload("frugal", 1, 1'000, 0.3, 4'000);
  frugal.cpus = 0;
  RunOptions options = Immediate();
  options.host = {.cores = 32};
  options.policy.mapper = "exclusive";
  options.record = true;
  const std::vector<Arrival> load{
      {Duration{0}, &hungry}, {Duration{0}, &hungry}, {Duration{0}, &frugal}};
  // Two want 48 cores of 32; who wants none does not notice.
  const RunResult slow = Play(MakeWorld("4xA100-40GB"), load, options);
  EXPECT_NEAR(slow.totals.makespan_s, 1'514, 0.01);
  for (const report::RunTask& task : slow.record->tasks) {
    const double took_s = base::Seconds(*task.ended - task.submitted);
    EXPECT_NEAR(took_s, task.name == "frugal" ? 1'014 : 1'514, 0.01) << task.name;
  }
  // The load says it for one of them.
  std::vector<Arrival> told = load;
  told[1].cpus = 8;
  EXPECT_NEAR(Play(MakeWorld("4xA100-40GB"), told, options).totals.makespan_s, 1'014, 0.01);
  // Where the server promises its cores the second waits for the first.
  options.host.promised = true;
  const Totals promised = Play(MakeWorld("4xA100-40GB"), load, options).totals;
  EXPECT_NEAR(promised.makespan_s, 2'028, 1);
  EXPECT_EQ(promised.rejected, 0);
}

TEST(Simulate, SomeTasksFailByThemselves) {
  const trace::Workload workload = MakeWorkload("a", 1, 3'600, 0.3, 4'000);
  RunOptions options = Immediate();
  options.failures.per_hour = 1;
  const RunResult run =
      Play(MakeWorld("4xA100-40GB"), std::vector<Arrival>(200, {Duration{0}, &workload}), options);
  // 1 - exp(-1) of them.
  EXPECT_NEAR(static_cast<double>(run.totals.failed) / 200, 0.632, 0.1);
  EXPECT_EQ(run.totals.oom_crashes, 0);
}

TEST(Simulate, EdgesOfTheLoad) {
  const trace::Workload nothing = MakeWorkload("nothing", 1, 0, 0.3, 4'000);
  const trace::Workload huge = MakeWorkload("huge", 1, 100, 0.3, 60'000);
  const Cluster cluster = MakeWorld("2xA100-40GB");
  const Totals empty = Play(cluster, {}, Immediate()).totals;
  EXPECT_EQ(empty, Totals{});

  const Totals instant = Play(cluster, {{Duration{0}, &nothing}}, Immediate()).totals;
  EXPECT_DOUBLE_EQ(instant.makespan_s, 14);
  EXPECT_EQ(instant.succeeded, 1);

  const Totals never = Play(cluster, {{Duration{0}, &huge}}, Immediate()).totals;
  EXPECT_EQ(never.rejected, 1);
  EXPECT_EQ(never.attempts, 0);

  RunOptions blind = Immediate();
  blind.estimates.source = "none";
  const Totals tried = Play(cluster, {{Duration{0}, &huge}}, blind).totals;
  EXPECT_EQ(tried.failed, 1);
  EXPECT_GE(tried.oom_crashes, 1);
}

TEST(Simulate, AWrongPredictionPromisesAtMostTheWholeGpu) {
  const trace::Workload nearly = MakeWorkload("nearly", 1, 100, 0.3, 39'000);
  const std::vector<Arrival> some(20, {Duration{0}, &nearly});
  const Cluster cluster = MakeWorld("4xA100-40GB");
  RunOptions options = Immediate();
  options.estimates.bias = 0.5;
  options.estimates.sigma = 0.1;
  EXPECT_EQ(Play(cluster, some, options).totals.succeeded, 20);
}

RunOptions Learning() {
  RunOptions options = Immediate();
  options.policy.floor_mib = 0;
  options.estimates.source = "none";
  options.estimates.method = "auto";
  return options;
}

TEST(Simulate, AFinishedTaskTeachesThoseOfItsWorkloadThatComeLater) {
  const trace::Workload known = MakeWorkload("known", 1, 1'000, 0.3, 25'000);
  const trace::Workload other = MakeWorkload("other", 1, 1'000, 0.3, 5'000);
  const std::vector<Arrival> arrivals{
      {Duration{0}, &known}, {Duration{2'000'000}, &known}, {Duration{4'000'000}, &other}};
  const RunResult run = Play(MakeWorld("A100-40GB"), arrivals, Learning());
  ASSERT_EQ(run.taught.size(), 3u);
  EXPECT_EQ(run.taught[0].method, "") << "nothing was known";
  EXPECT_EQ(run.taught[0].measured_mib, 25'000);
  EXPECT_EQ(run.taught[1].method, "history");
  EXPECT_EQ(run.taught[1].promised_mib, 27'500);
  EXPECT_EQ(run.taught[2].method, "") << "another program";
  EXPECT_EQ(run.taught[0].gpu_type, "A100-40GB");

  RunOptions forgetful = Learning();
  forgetful.estimates.learns = false;
  EXPECT_TRUE(Play(MakeWorld("A100-40GB"), arrivals, forgetful).taught.empty());
}

TEST(Simulate, WhatRanOutOfMemoryTeachesThatItNeedsMore) {
  const trace::Workload large = MakeWorkload("large", 1, 1'000, 0.3, 25'000);
  const std::vector<Arrival> arrivals{
      {Duration{0}, &large}, {Duration{500'000}, &large}, {Duration{4'000'000}, &large}};
  RunOptions options = Learning();
  options.memory.first_share = 0.5;
  options.memory.ramp = Duration{400'000};
  const RunResult run = Play(MakeWorld("A100-40GB"), arrivals, options);
  EXPECT_GE(run.totals.oom_crashes, 1);
  EXPECT_TRUE(run.taught[0].ran_out) << "it had grown when it crashed";
  EXPECT_LT(run.taught[0].measured_mib, 25'000);
  EXPECT_EQ(run.taught.back().method, "history");
}

TEST(Simulate, ALaterRunGoesOnFromWhatAnEarlierOneTaught) {
  const trace::Workload half = MakeWorkload("half", 1, 1'000, 0.3, 25'000);
  const std::vector<Arrival> arrivals(4, {Duration{0}, &half});
  RunOptions options = Learning();
  const RunResult first = Play(MakeWorld("2xA100-40GB"), arrivals, options);
  EXPECT_GE(first.totals.oom_crashes, 1);
  options.estimates.taught = std::make_shared<const std::vector<task::Observation>>(first.taught);
  const RunResult second = Play(MakeWorld("2xA100-40GB"), arrivals, options);
  EXPECT_EQ(second.totals.oom_crashes, 0);
  EXPECT_EQ(second.taught.size(), first.taught.size() + 4);
}

TEST(Simulate, WhatWasMeasuredHasNoErrorOfThePrediction) {
  const trace::Workload workload = MakeWorkload("a", 1, 1'000, 0.3, 10'000);
  RunOptions options = Learning();
  options.estimates.sigma = 1;
  const RunResult run = Play(MakeWorld("A100-40GB"),
                             {{Duration{0}, &workload}, {Duration{2'000'000}, &workload}}, options);
  EXPECT_EQ(run.taught[1].promised_mib, 11'000);
}

TEST(Simulate, RefusesWhatMakesNoSense) {
  const trace::Workload wide = MakeWorkload("bert-8gpu", 8, 100, 0.3, 4'000);
  const trace::Workload pair = MakeWorkload("bert-2gpu", 2, 100, 0.3, 4'000);
  const trace::Workload fine = MakeWorkload("fine", 1, 100, 0.3, 4'000);
  const Cluster cluster = MakeWorld("4xA100-40GB");
  struct Case {
    std::string_view why;
    std::vector<Arrival> arrivals;
    void (*change)(RunOptions&);
    std::string_view message;
  };
  const auto nothing = [](RunOptions&) {};
  const std::vector<Arrival> one{{Duration{0}, &fine}};
  for (const Case& c : {
           Case{"more GPUs than any server has",
                {{Duration{0}, &fine}, {Duration{0}, &wide}},
                nothing,
                "task 2 (bert-8gpu): wants 8 GPUs, the largest server has 4"},
           Case{"the same, of a file",
                {{Duration{0}, &wide, std::nullopt, 17}},
                nothing,
                "line 17 (bert-8gpu): wants 8 GPUs"},
           Case{"time goes back",
                {{Duration{5}, &fine}, {Duration{4}, &fine}},
                nothing,
                "task 2 (fine): comes before the task above it"},
           Case{"a negative duration", {{Duration{0}, &fine, -1.0}}, nothing, "lasts -1 s"},
           Case{"noise", one, [](RunOptions& o) { o.noise = -1; }, "noise: -1"},
           Case{"estimator", one, [](RunOptions& o) { o.estimates.method = "crystal-ball"; },
                "no estimator 'crystal-ball'"},
           Case{"no period", one, [](RunOptions& o) { o.monitor.period = Duration{0}; },
                "monitor period"},
           Case{"instances", one,
                [](RunOptions& o) {
                  o.collocation = core::SharingMethod::kMig;
                  o.mig_instances = 5;
                },
                "5 MIG instances"},
           Case{"several instances for one task",
                {{Duration{0}, &fine}, {Duration{0}, &pair}},
                [](RunOptions& o) { o.collocation = core::SharingMethod::kMig; },
                "task 2 (bert-2gpu): wants 2 GPUs, and MIG instances never work together"},
           Case{"policy", one, [](RunOptions& o) { o.policy.mapper = "best"; }, "mapper"},
           Case{"a slot too short to begin", one,
                [](RunOptions& o) { o.time_slot = Duration{14'000}; }, "time slot: 14 s"},
           Case{"one spike into the next", one,
                [](RunOptions& o) { o.memory.spike_lasts = o.memory.spike_every; },
                "memory spikes last"},
       }) {
    RunOptions options = Immediate();
    c.change(options);
    const base::Result<RunResult> result = Simulate(cluster, c.arrivals, options);
    ASSERT_FALSE(result) << c.why;
    EXPECT_NE(result.error().message.find(c.message), std::string::npos)
        << c.why << ": " << result.error().message;
  }
}

TEST(Simulate, EnergyIsTheIntegralOfThePowerInTheRecord) {
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

// Samples that are not made would have changed nothing: the same run, byte for byte.
TEST(Simulate, SamplesOnDemandGiveTheRunOfAllSamples) {
  const std::vector<trace::Workload> workloads = Mixed();
  std::vector<Arrival> arrivals = Crowd(workloads, 60);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    arrivals[i].user = i % 5 < 3 ? "ada" : i % 5 == 3 ? "bob" : "eve";
  }
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
           Case{"memory that moves",
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
    // One shorter than the load time, and the usual one.
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
      EXPECT_LT(few.totals.samples * 2, all.totals.samples) << c.name;
    }
  }
}

TEST(Simulate, WhoRunsOutOfMemoryTeachesThoseOfItsWorkload) {
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 120);
  RunOptions options;
  options.estimates.source = "none";
  options.policy.sm_cap.reset();
  const Totals learning = Play(MakeWorld("4xA100-40GB"), arrivals, options).totals;
  options.policy.plateau_after.reset();
  const Totals before = Play(MakeWorld("4xA100-40GB"), arrivals, options).totals;
  EXPECT_GT(learning.oom_crashes, 0);
  EXPECT_LT(learning.oom_crashes * 2, before.oom_crashes);
}

TEST(Simulate, ADelayOfTheMonitorCostsTime) {
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 60);
  RunOptions options;
  options.estimates.source = "oracle";
  options.policy.plateau_after.reset();  // chance would be larger than what the delay costs
  const double prompt_s = Play(MakeWorld("4xA100-40GB"), arrivals, options).totals.waiting_s;
  options.monitor.delay = Duration{30'000};
  const double late_s = Play(MakeWorld("4xA100-40GB"), arrivals, options).totals.waiting_s;
  EXPECT_GT(late_s, prompt_s);
}

TEST(Simulate, EqualArgumentsGiveEqualRuns) {
  const Demo demo;
  const Cluster cluster = MakeWorld("2 * 4xA100-40GB");
  RunOptions options = Immediate();
  options.noise = 0.05;
  options.estimates.sigma = 0.3;
  const RunResult first = Play(cluster, demo.arrivals(), options);
  const RunResult second = Play(cluster, demo.arrivals(), options);
  EXPECT_EQ(first.totals, second.totals);
  EXPECT_TRUE(SameTasks(*first.record, *second.record));
  options.seed = 2;
  EXPECT_NE(Play(cluster, demo.arrivals(), options).totals, first.totals);
}

// Who floods the queue delays nobody else: the next place that comes free is the newcomer's.
TEST(Simulate, AFloodDelaysAnothersFirstTaskByOneEnd) {
  const trace::Workload workload = MakeWorkload("w", 1, 300, 1.0, 30'000);
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 10'000; ++i) arrivals.push_back({Duration{0}, &workload, 200 + i % 200});
  for (Arrival& each : arrivals) each.user = "flood";
  for (int i = 0; i < 4; ++i) {
    arrivals.push_back({Duration{7'200'000}, &workload});
    arrivals.back().user = "guest";
  }
  const auto longest_wait_s = [&](core::QueueOrder order) {
    RunOptions options = Immediate();
    options.policy.order = order;
    options.points_per_gpu = 10;
    const RunResult run = Play(MakeWorld("4xA100-40GB"), arrivals, options);
    double longest_s = 0;
    for (const report::RunTask& task : run.record->tasks) {
      if (task.user != "guest") continue;
      longest_s = std::max(longest_s, base::Seconds(task.attempts[0].started - task.submitted));
    }
    return longest_s;
  };
  EXPECT_GT(longest_wait_s(core::QueueOrder::kFifo), 600'000);
  EXPECT_LT(longest_wait_s(core::QueueOrder::kFair), 2 * 420);  // four places, each once
}

TEST(SimulateRuns, TheNumberOfThreadsCannotBeSeen) {
  const Demo demo;
  const Cluster cluster = MakeWorld("dgx-station-a100");
  RunOptions options;
  options.noise = 0.03;
  options.estimates.source = "gpumemnet";
  const auto one = SimulateRuns(cluster, demo.arrivals(), options, 8, 1);
  const auto many = SimulateRuns(cluster, demo.arrivals(), options, 8, 5);
  ASSERT_TRUE(one && many);
  EXPECT_EQ(*one, *many);
  EXPECT_NE((*one)[0], (*one)[1]);
}

TEST(Cluster, SpreadsTheLoadAndLosesNothing) {
  const std::vector<trace::Workload> workloads = Mixed();
  const std::vector<Arrival> arrivals = Crowd(workloads, 400);
  RunOptions options = Immediate();
  const RunResult run = Play(MakeWorld("3 * 2xA100-40GB"), arrivals, options);
  EXPECT_EQ(run.totals.succeeded, 400);
  std::vector<int> used(6, 0);
  for (const report::RunTask& task : run.record->tasks) {
    const std::vector<int>& gpus = task.attempts[0].gpus;
    for (const int gpu : gpus) ++used[static_cast<std::size_t>(gpu)];
    // All GPUs of one server.
    EXPECT_EQ(gpus.front() / 2, gpus.back() / 2);
  }
  EXPECT_GT(*std::min_element(used.begin(), used.end()), 20) << ::testing::PrintToString(used);
}

TEST(Cluster, ATaskWaitsForTheOnlyServerThatIsLargeEnough) {
  const trace::Workload large = MakeWorkload("large", 1, 1'000, 0.9, 60'000);
  const trace::Workload small = MakeWorkload("small", 1, 100, 0.3, 4'000);
  const Cluster cluster = MakeWorld("A100-40GB + A100-80GB");
  std::vector<Arrival> arrivals(4, {Duration{0}, &large});
  arrivals.push_back({Duration{0}, &small});
  const RunResult run = Play(cluster, arrivals, Immediate());
  EXPECT_EQ(run.totals.succeeded, 5);
  EXPECT_EQ(run.totals.oom_crashes, 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(run.record->tasks[static_cast<std::size_t>(i)].attempts[0].gpus, std::vector<int>{1});
  }
}

TEST(ParseCluster, NamesShapesAndSeveralServers) {
  EXPECT_EQ(MakeWorld("DGX-Station-A100").servers[0].gpus.size(), 4u);
  EXPECT_EQ(MakeWorld("2xV100-16GB,1xH100-80GB").servers[0].gpus.size(), 3u);
  const Cluster mixed = MakeWorld("3 * dgx-h100 + 4xL40S-48GB");
  ASSERT_EQ(mixed.servers.size(), 4u);
  EXPECT_EQ(mixed.servers[3].name, "node 3");
  EXPECT_EQ(mixed.servers[3].gpus[0].type, "L40S-48GB");
  for (const ServerName& each : ServerNames()) EXPECT_TRUE(ParseCluster(each.name)) << each.name;
  for (const std::string_view bad : {"", "dgx", "0 * dgx-a100", "x * dgx-a100", "5000 * dgx-a100",
                                     "dgx-a100 +", "0xA100-40GB", "65xA100-40GB"}) {
    EXPECT_FALSE(ParseCluster(bad)) << bad;
  }
}

TEST(AsPublished, SetsWhatBelongsToTheEra) {
  const RunOptions thesis = *AsPublished("thesis", {});
  EXPECT_EQ(thesis.monitor.window, Duration{92'000});
  EXPECT_EQ(thesis.policy.pacing, core::Pacing::kThesis);
  EXPECT_EQ(AsPublished("v2", {})->monitor.window, Duration{30'000});
  EXPECT_FALSE(AsPublished("v3", {}));
}

}  // namespace
}  // namespace carma::sim
