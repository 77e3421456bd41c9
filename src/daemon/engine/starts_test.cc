#include "daemon/engine/starts.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <utility>

#include "task/mps/mps.h"
#include "task/shim/fake_launcher.h"

namespace carma::daemon {
namespace {

using core::SharingMethod;

constexpr core::TaskId kStarted{1};

std::string NewStartsFolder() {
  std::string folder = ::testing::TempDir() + "/carma-starts-XXXXXX";
  return ::mkdtemp(folder.data());
}

class StartsTest : public ::testing::Test {
 protected:
  StartsTest() {
    core_.Handle({}, core::GpusDiscovered{{{"GPU-0", "A100", 41'000, 1'000},
                                           {"GPU-1", "A100", 41'000, 1'000},
                                           {"MIG-2", "A100", 10'000, 0, true}}});
  }
  ~StartsTest() override {
    store_.reset();
    std::filesystem::remove_all(options_.state_dir);
  }
  void Keep(const task::TaskSpec& spec) {
    store::StoredTask stored;
    stored.record.id = kStarted;
    stored.spec_json = task::ToJsonText(spec);
    ASSERT_TRUE(store_->Begin());
    ASSERT_TRUE(store_->PutTask(stored));
    ASSERT_TRUE(store_->Commit());
  }
  static core::StartTask On(std::vector<std::uint32_t> gpus, bool alone = false) {
    core::StartTask start{kStarted, 1, {}, alone};
    for (const std::uint32_t gpu : gpus) start.placement.push_back({core::GpuIndex{gpu}, 5'000});
    return start;
  }

  EngineOptions options_{.state_dir = NewStartsFolder(), .socket = "/run/s.sock"};
  std::unique_ptr<store::Store> store_ = store::Store::Open(options_.state_dir).value();
  task::FakeLauncher launcher_;
  core::Scheduler core_{core::PolicyConfig{}};
  Attribution attribution_;
  std::vector<core::Event> posted_;
  Starts starts_{options_,     *store_,
                 launcher_,    core_,
                 attribution_, [this](core::Event event) { posted_.push_back(std::move(event)); }};
};

TEST_F(StartsTest, WithoutMpsNeighboursShareByStreams) {
  EXPECT_EQ(starts_.PlainSharing(On({0}))->method, SharingMethod::kStreams);
  EXPECT_EQ(starts_.PlainSharing(On({0}, true))->method, SharingMethod::kAlone);
  EXPECT_EQ(starts_.PlainSharing(On({2}))->method, SharingMethod::kMig);
  EXPECT_EQ(starts_.PlainSharing(On({}, true)), core::Sharing{}) << "it has no GPU to share";
}

TEST_F(StartsTest, ALaunchedTaskSeesItsGpusAndNoForeignMpsServer) {
  task::TaskSpec spec;
  spec.name = "train";
  spec.command = {"python"};
  spec.workdir = "/";
  spec.stdout_path = "/dev/null";
  spec.environment = {{"XLA_PYTHON_CLIENT_PREALLOCATE", "true"}};
  Keep(spec);
  starts_.Launch(On({1, 0}));
  ASSERT_EQ(launcher_.started.size(), 1U);
  const task::LaunchOrder& order = launcher_.started[0];
  EXPECT_EQ(order.gpu_uuids, (std::vector<std::string>{"GPU-1", "GPU-0"}));
  EXPECT_EQ(order.attempt_dir, options_.state_dir + "/attempts/1/1");
  EXPECT_EQ(order.extra_environment.at("TF_FORCE_GPU_ALLOW_GROWTH"), "true");
  EXPECT_FALSE(order.extra_environment.contains("XLA_PYTHON_CLIENT_PREALLOCATE"))
      << "its owner chose another value";
  EXPECT_EQ(order.extra_environment.at("CARMA_SOCKET"), options_.socket);
  for (const auto& [name, value] : task::WithoutMpsEnvironment())
    EXPECT_EQ(order.extra_environment.at(name), value);
}

TEST_F(StartsTest, ATaskWhoseDescriptionCannotBeReadFailsToLaunch) {
  starts_.Launch(On({0}));
  EXPECT_TRUE(launcher_.started.empty());
  ASSERT_EQ(posted_.size(), 1U);
  EXPECT_EQ(std::get<core::LaunchFailed>(posted_[0]).id, kStarted);
}

TEST_F(StartsTest, OtherTasksDoNotUseDedicatedCores) {
  using Confined = std::vector<std::pair<core::TaskId, std::string>>;
  options_.controls = {.cores = true};
  options_.all_cores = {0, 1, 2, 3};
  core_.Handle({}, core::HostDiscovered{{.cpus = 4, .memory_mib = 1'000, .cores = {0, 1, 2, 3}}});
  const core::TaskId own{2};
  core_.Handle({}, core::TaskSubmitted{kStarted, core::TaskRequest{.gpus = 0}});
  starts_.ShareCores();
  EXPECT_EQ(std::exchange(launcher_.confined, {}), (Confined{{kStarted, ""}}))
      << "tasks that an earlier daemon confined are released";
  core_.Handle({},
               core::TaskSubmitted{own, core::TaskRequest{.gpus = 0, .cpus = 2, .own_cpus = true}});
  starts_.ShareCores();
  EXPECT_EQ(std::exchange(launcher_.confined, {}), (Confined{{kStarted, "2-3"}, {own, "0-1"}}));
  starts_.ShareCores();
  starts_.Confine(*core_.Find(kStarted));
  EXPECT_EQ(std::exchange(launcher_.confined, {}), (Confined{{kStarted, "2-3"}}));
  core_.Handle({}, core::TaskExited{own, 1, {}});
  starts_.ShareCores();
  EXPECT_EQ(launcher_.confined, (Confined{{kStarted, ""}}));
}

TEST_F(StartsTest, EachGpuOrAllWholeGpusTogetherMayHaveAnMpsServer) {
  EXPECT_EQ(starts_.MpsServers(),
            (std::vector<std::string>{"GPU-0,GPU-1", "GPU-0", "GPU-1", "MIG-2"}));
}

}  // namespace
}  // namespace carma::daemon
