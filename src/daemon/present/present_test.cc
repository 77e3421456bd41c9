// Tests that a task view shows everything that the store has about the task.
#include "daemon/present/present.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "config/settings.h"
#include "store/task_fixture.h"

namespace carma::daemon {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

TEST(Present, FillsEveryField) {
  store::StoredTask stored = store::FullTask(7);
  stored.record.state = core::TaskState::kFailed;
  stored.spec_json =
      R"({"array_index":5,"command":["python","train.py"],"comment":"try","container":"debian:12","workdir":"/home/ada",
          "parameters":{"lr":"0.1"},"notify":[{"target":"me","events":["fail"]}],
          "lease":"4711 88213 0f6c","serve":true})";
  const base::Json view = ToJson(Present(stored));
  const base::Json empty = ToJson(api::TaskView{});
  std::vector<std::string> untold;
  for (const auto& [name, value] : view.items()) {
    if (value == empty[name]) untold.push_back(name);
  }
  // These are expected to be empty. The last attempt ended together with the task. Remarks and
  // notices are stored separately. There is no exit code, because a signal killed the task. The
  // other fields are known only until a task ends.
  EXPECT_THAT(untold, ElementsAre("attempt_ended_ms", "estimate_remarks", "exit_code", "host_note",
                                  "latest_start_ms", "likely_start_ms", "notices", "observed_mib",
                                  "over_promise_mib", "pid", "progress", "turn_ends_ms",
                                  "waiting_since_ms", "wrong_gpus"));
}

TEST(Present, ATaskCancelledAfterARequeueRanUntilItsLastAttemptEnded) {
  store::StoredTask stored = store::FullTask(7);
  core::TaskRecord& record = stored.record;
  record.state = core::TaskState::kCancelled;
  EXPECT_EQ(Present(stored).RanUntilMs(), base::ToMs(*record.ended));
  record.attempt = record.attempt->Past();
  record.queued_since = *record.attempt->launched + core::Duration(2'000);
  record.ended = record.queued_since + core::Duration(90'000);
  EXPECT_EQ(Present(stored).RanUntilMs(), base::ToMs(record.queued_since));
}

TEST(Present, ALostTaskHasNoExitCode) {
  store::StoredTask stored = store::FullTask(7);
  stored.record.state = core::TaskState::kFailed;
  stored.record.exit = core::ExitInfo{core::ExitKind::kFailed, 3, 0, ""};
  EXPECT_EQ(Present(stored).exit_code, 3);
  stored.record.state = core::TaskState::kLost;
  stored.record.exit = core::ExitInfo{core::ExitKind::kLost, 0, 0, "no report"};
  EXPECT_EQ(Present(stored).exit_code, std::nullopt);
  EXPECT_EQ(Present(stored).exit_detail, "no report");
}

TEST(PolicyLine, ShowsThePolicyAndChangedValues) {
  config::Settings settings;
  EXPECT_EQ(PolicyLine(settings), settings.policy.mapper);
  settings.policy.order = core::QueueOrder::kFair;
  settings.policy.slots.length = core::Duration{43'200'000};
  EXPECT_EQ(PolicyLine(settings),
            settings.policy.mapper + ", fair-share order, time slices of 12:00:00");
  const auto set =
      config::LoadText("carma.toml",
                       "[policy]\nmapper = 'by-work'\nmargin = '4G'\nsm_cap = false\nbackfill = 1\n"
                       "[recovery]\nmode = 'exclusive'\n",
                       true);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(PolicyLine(set->settings),
            "by-work, no limit on SM activity, margin 4.0G, backfill 1, recovery exclusive");
}

TEST(PolicyLine, ShowsTheLimitOfStreams) {
  config::Settings settings;
  settings.collocation = core::SharingMethod::kStreams;
  settings.policy = config::PolicyFor(settings, *settings.collocation);
  EXPECT_EQ(PolicyLine(settings), "magm, SM activity <= 40 %");
  settings.collocation = core::SharingMethod::kMps;
  settings.policy = config::PolicyFor(settings, *settings.collocation);
  EXPECT_EQ(PolicyLine(settings), "by-work");
}

TEST(HostNote, NamesUnenforcedPromises) {
  EXPECT_EQ(HostNote({1, 1, "0"}, {.why_not = "no cgroups"}),
            "CARMA cannot enforce CPU limits or dedicated cores or memory limits: no cgroups.");
}

TEST(CollocationLine, ShowsWhatLimitsMemory) {
  config::Settings settings;
  settings.collocation = core::SharingMethod::kMps;
  EXPECT_THAT(CollocationLine(settings, nullptr), EndsWith("SMs to --sm-share, but not memory"));
  settings.mps_servers = task::MpsScope::kShared;
  EXPECT_THAT(CollocationLine(settings, nullptr),
              HasSubstr("tasks of all users, not isolated from each other, compute"));
  settings.mps_servers = task::MpsScope::kGpu;
  EXPECT_THAT(CollocationLine(settings, nullptr),
              HasSubstr("MPS limits each process's memory to its task's promise and margin"));
  settings.sm_partitions = true;
  EXPECT_THAT(CollocationLine(settings, nullptr),
              HasSubstr("SMs to --sm-share (dedicated SMs if the driver has"));
  settings.collocation = core::SharingMethod::kStreams;
  EXPECT_THAT(CollocationLine(settings, nullptr), EndsWith(". Their memory is not limited"));
  settings.kernel_limits = true;
  EXPECT_THAT(
      CollocationLine(settings, nullptr),
      EndsWith("taking turns on the SMs. The kernel limits the memory of all processes of a "
               "task together"));
}

TEST(CollocationLine, SaysThatInstancesAreSharedOnlyIfTheMapperShares) {
  config::Settings settings;
  settings.policy.share_mig = true;
  gpu::DeviceInfo instance{"MIG-a", "A100 3g.20gb", "", 20'000, 0, true};
  instance.mig.emplace();
  Monitor divided({instance}, MonitorOptions{});
  EXPECT_THAT(CollocationLine(settings, &divided), HasSubstr("a MIG instance is shared"));
  settings.policy.mapper = core::kNeverSharing;
  EXPECT_THAT(CollocationLine(settings, &divided),
              HasSubstr("a MIG instance holds one task at a time"));
}

TEST(MemoryLimitsBy, NamesTheMethodThatLimitsMemory) {
  config::Settings settings;
  settings.mps_servers = task::MpsScope::kUser;
  settings.collocation = core::SharingMethod::kMps;
  EXPECT_EQ(MemoryLimitsBy(settings, nullptr), "nobody") << "a server has one limit for all GPUs";
  Monitor one({{"GPU-a", "A100", "", 41'000, 1'000, true}}, MonitorOptions{});
  EXPECT_EQ(MemoryLimitsBy(settings, &one), "mps");
  settings.mps_servers = task::MpsScope::kGpu;
  EXPECT_EQ(MemoryLimitsBy(settings, nullptr), "mps");
  settings.kernel_limits = true;
  EXPECT_EQ(MemoryLimitsBy(settings, nullptr), "kernel");
  settings.mps_memory_limit = false;
  EXPECT_EQ(MemoryLimitsBy(settings, nullptr), "nobody");
}

}  // namespace
}  // namespace carma::daemon
