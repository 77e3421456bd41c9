#include "core/books/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler/scheduler.h"

namespace carma::core {
namespace {

using testing::HasSubstr;

Time AtHour(double hours) {
  return base::FromMs(static_cast<std::int64_t>(hours * 3'600'000));
}

std::vector<LimitRule> Rules(std::initializer_list<const char*> texts) {
  std::vector<LimitRule> rules;
  for (const char* text : texts) rules.push_back(*ParseLimitRule(text));
  return rules;
}

TaskRecord TaskOf(std::uint64_t id, const std::string& user, int gpus = 1) {
  TaskRecord task{.id = TaskId{id}};
  task.request.Edit().user = user;
  task.request.Edit().gpus = gpus;
  return task;
}

TaskRecord Placed(TaskRecord task, std::int64_t claim_mib, Time launched) {
  for (int i = 0; i < task.request->gpus; ++i)
    task.attempt.Edit().placement.push_back({GpuIndex{static_cast<std::uint32_t>(i)}, claim_mib});
  task.attempt.Edit().launched = launched;
  return task;
}

std::string Why(const Limits& limits, const TaskRecord& task, std::int64_t promised_mib = 0,
                Time now = AtHour(0)) {
  const std::optional<LimitHit> hit = limits.AgainstStart(task,
                                                          {.gpus = task.request->gpus,
                                                           .promised_mib = promised_mib,
                                                           .host = HostNeedOf({}, task.request)},
                                                          now);
  return hit ? TextOf(*hit) : "";
}

TEST(Limits, ApplyToEachUserOrToAllUsersTogether) {
  Limits limits;
  limits.Follow(Rules({"user=* running=1", "running=2"}), AtHour(0));
  limits.Start(Placed(TaskOf(1, "ada"), 0, AtHour(0)));
  EXPECT_EQ(Why(limits, TaskOf(2, "ada")),
            "1 of 1 allowed task is running (limit of each user: user=* running=1).");
  EXPECT_EQ(Why(limits, TaskOf(3, "bob")), "");
  limits.Start(Placed(TaskOf(3, "bob"), 0, AtHour(0)));
  EXPECT_THAT(Why(limits, TaskOf(4, "eve")), HasSubstr("everybody together"));
  limits.Start(Placed(TaskOf(5, "ada"), 0, AtHour(0)));  // before the limit was lowered
  EXPECT_EQ(Why(limits, TaskOf(2, "ada")),
            "2 tasks (1 allowed) are running (limit of each user: user=* running=1).");
  limits.End(TaskOf(5, "ada"));
  limits.End(TaskOf(1, "ada"));
  EXPECT_EQ(Why(limits, TaskOf(2, "ada")), "");
}

TEST(Limits, CountGpusAndPromisedMemory) {
  Limits limits;
  limits.Follow(Rules({"user=ada gpus=3", "account=vision memory=40G"}), AtHour(0));
  limits.Start(Placed(TaskOf(1, "ada", 2), 0, AtHour(0)));
  EXPECT_EQ(Why(limits, TaskOf(2, "ada", 1)), "");
  EXPECT_THAT(Why(limits, TaskOf(2, "ada", 2)), HasSubstr("2 of 3 allowed GPUs are in use"));
  TaskRecord vision = TaskOf(3, "bob");
  vision.request.Edit().account = "vision";
  limits.Start(Placed(vision, 30'000, AtHour(0)));
  TaskRecord more = TaskOf(4, "eve");
  more.request.Edit().account = "vision";
  EXPECT_EQ(Why(limits, more, 10'000), "");
  EXPECT_THAT(Why(limits, more, 20'000), HasSubstr("account vision"));
}

TEST(Limits, GpuHoursAreFreedAfterTheirPeriod) {
  Limits limits;
  limits.Follow(Rules({"user=* gpu_hours=10/24h"}), AtHour(0));
  const TaskRecord running = Placed(TaskOf(1, "ada", 2), 0, AtHour(0));
  limits.Join(running);
  limits.Start(running);
  EXPECT_EQ(Why(limits, TaskOf(2, "ada"), 0, AtHour(4.9)), "");
  EXPECT_THAT(Why(limits, TaskOf(2, "ada"), 0, AtHour(5)), HasSubstr("of the 10 GPU hours"));
  EXPECT_EQ(limits.NextChange(AtHour(4)), AtHour(5)) << "used up by then";
  limits.End(running);
  limits.Past({.user = "ada", .gpus = 2, .from = AtHour(0), .to = AtHour(6)}, AtHour(6));
  EXPECT_THAT(Why(limits, TaskOf(2, "ada"), 0, AtHour(6)), HasSubstr("12.0 of"));
  EXPECT_EQ(Why(limits, TaskOf(3, "bob"), 0, AtHour(6)), "");
  EXPECT_EQ(limits.NextChange(AtHour(6)), AtHour(30));
  limits.Advance(AtHour(6));
  const std::uint64_t changes = limits.changes();
  limits.Advance(AtHour(29.9));
  EXPECT_EQ(limits.changes(), changes);
  limits.Advance(AtHour(30));
  EXPECT_GT(limits.changes(), changes);
  EXPECT_EQ(Why(limits, TaskOf(2, "ada"), 0, AtHour(30)), "");
  EXPECT_EQ(limits.NextChange(AtHour(30)), std::nullopt);
}

TEST(Limits, GpuHoursInTheFutureDoNotCount) {
  Limits limits;
  limits.Follow(Rules({"user=* gpu_hours=10/24h"}), AtHour(0));
  const double year_h = 8'760;
  limits.Past({.user = "ada", .gpus = 2, .from = AtHour(4), .to = AtHour(year_h)}, AtHour(6));
  limits.Past({.user = "ada", .gpus = 2, .from = AtHour(8), .to = AtHour(year_h)}, AtHour(6));
  EXPECT_EQ(Why(limits, TaskOf(1, "ada"), 0, AtHour(6)), "")
      << "the clock was set back: 4 hours count";
  EXPECT_EQ(limits.NextChange(AtHour(6)), AtHour(30));
}

TEST(Limits, LongerPeriodsCountAttemptsThatEndedBefore) {
  Scheduler core{PolicyConfig{}};
  core.Handle(AtHour(0), GpusDiscovered{{{"", "A100", 40'960, 424}}});
  core.Handle(AtHour(100),
              GpuSampled{GpuIndex{0}, {.taken = AtHour(100), .window_from = AtHour(99)}});
  PolicyConfig policy;
  policy.limits = Rules({"user=* gpu_hours=10/200h"});
  const Taken ended{.user = "ada", .gpus = 2, .from = AtHour(0), .to = AtHour(6)};
  core.Handle(AtHour(100), PolicyChanged{policy, std::vector<Taken>{ended}});
  core.Handle(AtHour(100), TaskSubmitted{TaskId{1}, TaskOf(1, "ada").request});
  core.Handle(AtHour(100), EstimateReady{TaskId{1}, Estimate{1'000, "given"}});
  EXPECT_EQ(core.ReasonFor(TaskId{1}, AtHour(100)).code, ReasonCode::kLimit);
}

TEST(Limits, CountCoresAndMemoryOfTheServer) {
  Limits limits;
  limits.Follow(Rules({"user=* cpus=8 host_memory=16G"}), AtHour(0));
  TaskRecord first = TaskOf(1, "ada");
  first.attempt.Edit().host = {.cpus = 6, .memory_mib = 10'000};
  limits.Start(first);
  TaskRecord second = TaskOf(2, "ada");
  second.request.Edit().cpus = 2;
  EXPECT_EQ(Why(limits, second), "");
  second.request.Edit().host_memory_mib = 7'000;
  EXPECT_NE(Why(limits, second).find("host_memory=16G"), std::string::npos);
  second.request.Edit().cpus = 3;
  EXPECT_NE(Why(limits, second).find("6 of 8 allowed CPUs are in use, and the task needs 3"),
            std::string::npos);
  limits.End(first);
  EXPECT_EQ(Why(limits, second), "");
  const auto refused = limits.AgainstQueueing({.cpus = 9}, HostNeed{.cpus = 9}, 1);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->what, LimitHit::What::kCpus);
}

TEST(Limits, RefuseSubmissionsThatCanNeverStart) {
  Limits limits;
  limits.Follow(Rules({"user=* queued=2 gpus=4 length=2h", "qos=closed running=0",
                       "user=mysql gpu_hours=0/7d"}),
                AtHour(0));
  limits.Join(TaskOf(1, "ada"));
  const auto refused = [&](TaskRequest request, std::size_t more) {
    const std::optional<LimitHit> hit =
        limits.AgainstQueueing(request, HostNeedOf({}, request), more);
    return hit ? TextOf(*hit) : "";
  };
  EXPECT_EQ(refused({.user = "ada"}, 1), "");
  EXPECT_THAT(refused({.user = "ada"}, 2),
              HasSubstr("1 of 2 allowed tasks are waiting or running, and 2"));
  EXPECT_THAT(refused({.gpus = 5, .user = "bob"}, 1), HasSubstr("the task needs 5"));
  EXPECT_THAT(refused({.user = "bob", .time_limit = Duration{7'201'000}}, 1),
              HasSubstr("asks for 2:00:01, but may run for at most 2:00:00"));
  EXPECT_THAT(refused({.user = "bob", .qos = "closed"}, 1), HasSubstr("class closed"));
  EXPECT_THAT(refused({.user = "mysql"}, 1), HasSubstr("0.0 of the 0 GPU hours allowed"));
  EXPECT_EQ(refused({.gpus = 0, .user = "mysql"}, 1), "") << "it uses no GPU hours";
  EXPECT_EQ(limits.LongestFor({.user = "bob"}), Duration{7'200'000});
  EXPECT_TRUE(limits.AgainstEver({.gpus = 5, .user = "bob"}, {}));
  EXPECT_FALSE(limits.AgainstEver({.user = "bob", .time_limit = Duration{7'201'000}}, {}))
      << "a queued task keeps its time limit";
}

TEST(Limits, AnEditedTaskCountsOnlyForNewLimits) {
  Limits limits;
  limits.Follow(Rules({"user=* queued=1", "account=course queued=1"}), AtHour(0));
  for (const std::uint64_t id : {1, 2}) limits.Join(TaskOf(id, "ada"));
  TaskRecord other = TaskOf(3, "bob");
  other.request.Edit().account = "course";
  limits.Join(other);
  const TaskRequest before = TaskOf(1, "ada").request;
  EXPECT_FALSE(limits.AgainstQueueing(before, {}, 1, &before)) << "over its limit, adds nothing";
  TaskRequest moved = before;
  moved.account = "course";
  const std::optional<LimitHit> hit = limits.AgainstQueueing(moved, {}, 1, &before);
  ASSERT_TRUE(hit);
  EXPECT_THAT(TextOf(*hit), HasSubstr("account course"));
}

TEST(Limits, ConcernOnlyExistingTasks) {
  Limits limits;
  limits.Follow(Rules({"user=* qos=interactive running=1", "user=* queued=9"}), AtHour(0));
  const TaskRecord usual = TaskOf(1, "ada");
  limits.Join(usual);
  EXPECT_FALSE(limits.Concerns());
  TaskRecord interactive = TaskOf(2, "ada");
  interactive.request.Edit().qos = "interactive";
  limits.Join(interactive);
  EXPECT_TRUE(limits.Concerns());
  limits.Leave(interactive);
  EXPECT_FALSE(limits.Concerns());
}

TEST(Limits, StartingOrEndingTwiceChangesNothing) {
  Limits limits;
  limits.Follow(Rules({"user=* running=2"}), AtHour(0));
  const TaskRecord task = Placed(TaskOf(1, "ada"), 0, AtHour(0));
  limits.Start(task);
  limits.Start(task);
  EXPECT_EQ(Why(limits, TaskOf(2, "ada")), "");
  limits.End(task);
  limits.End(task);
  EXPECT_EQ(limits.running(), 0u);
  limits.Start(task);
  limits.Start(Placed(TaskOf(2, "ada"), 0, AtHour(0)));
  EXPECT_NE(Why(limits, TaskOf(3, "ada")), "");
}

}  // namespace
}  // namespace carma::core
