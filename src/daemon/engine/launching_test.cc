#include "daemon/engine/launching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "task/describe/lease.h"
#include "task/describe/spec_json.h"
#include "task/shim/fake_launcher.h"

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;

TEST(OpenLaunching, ReportsWhyTheMachinesLimitsAreNotEnforced) {
  config::Settings settings;
  settings.cgroups = false;
  settings.max_processes = 10;
  const Result<Launching> opened = OpenLaunching(settings, "/no/such/program");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->controls.why_not, "task.cgroups is false");
  EXPECT_FALSE(opened->processes_counted_by_user) << "carmad has no group of its own";
  EXPECT_FALSE(opened->machine.cpus.empty());
}

TEST(WatchWaitingLeases, TakesOverProcessesThatWaitedForAnEarlierDaemon) {
  std::string folder = ::testing::TempDir() + "/carma-launching-XXXXXX";
  const std::string state_dir = ::mkdtemp(folder.data());
  const auto store = store::Store::Open(state_dir).value();
  const auto waiting = [](std::uint64_t id, std::optional<std::string> process) {
    task::TaskSpec spec;
    spec.name = "step";
    spec.command = {"true"};
    spec.workdir = "/";
    spec.lease = std::move(process);
    store::StoredTask stored;
    stored.record.id = core::TaskId{id};
    stored.record.state = core::TaskState::kQueued;
    stored.spec_json = task::ToJsonText(spec);
    return stored;
  };
  const store::StoredTask lease =
      waiting(4, task::TextOf(task::FindLeaseProcess(::getpid()).value()));
  const store::StoredTask plain = waiting(5, std::nullopt);
  ASSERT_TRUE(store->Begin() && store->PutTask(lease) && store->PutTask(plain) && store->Commit());
  const auto launcher =
      task::LeaseLauncher::Make(std::make_unique<task::FakeLauncher>(), {.daemon = 0});
  WatchWaitingLeases(*store, **launcher);
  EXPECT_THAT((*launcher)->Leases(), ElementsAre(core::TaskId{4}));
  std::filesystem::remove_all(state_dir);
}

}  // namespace
}  // namespace carma::daemon
