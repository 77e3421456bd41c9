#include "daemon/server/engine_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <mutex>

#include "base/fake_clock.h"
#include "task/shim/fake_launcher.h"

namespace carma::daemon {
namespace {

namespace asio = boost::asio;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const core::GpuIndex kFirst{0};
const core::GpuIndex kSecond{1};

// A fixture with two GPUs, a launcher that starts nothing, and a store in a temporary folder.
class EngineHostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/carma-host-XXXXXX";
    state_dir_ = ::mkdtemp(folder.data());
    store_ = store::Store::Open(state_dir_).value();
    auto fake = std::make_unique<task::FakeLauncher>();
    launcher_ = fake.get();
    launching_.launcher = task::LeaseLauncher::Make(std::move(fake), {}).value();
    config::Settings& settings = in_force_.settings;
    settings.state_dir = state_dir_;
    settings.mps_dir = state_dir_ + "/mps";
    settings.mps_control = "/no/such/program";
    settings.collocation = core::SharingMethod::kAlone;
    settings.notify_admin = {"mail:root"};
  }
  void TearDown() override {
    host_.reset();
    store_.reset();
    std::filesystem::remove_all(state_dir_);
  }

  // Replaces the EngineHost, as a daemon restart would.
  void Open() {
    host_.reset();
    loop_meter_.reset();
    work_.reset();
    loop_ = std::make_shared<asio::io_context>(1);
    work_.emplace(loop_->get_executor());
    loop_meter_.emplace(*loop_, [](std::chrono::nanoseconds) {});
    const std::vector<gpu::DeviceInfo> devices{{"GPU-a", "A100", "", 41'000, 1'000, true},
                                               {"GPU-b", "A100", "", 41'000, 1'000, true}};
    const std::vector<core::GpuInfo> gpus{{"GPU-a", "A100", 41'000, 1'000},
                                          {"GPU-b", "A100", 41'000, 1'000}};
    host_ = std::make_unique<EngineHost>(
        EngineHost::Surroundings{
            .loop = loop_,
            .in_force = in_force_,
            .clock = clock_,
            .store = *store_,
            .launching = launching_,
            .counters = counters_,
            .loop_meter = *loop_meter_,
            .fault_origins = fault_origins_,
            .ask_name = [](std::uint32_t, const auto& call) { call(base::KnownUser{"ada"}); },
            .after_next_reading = [](const auto& call) { call(); },
            .shim_path = "/no/such/program",
            .notify_path = "/no/such/program",
            .driver_versions =
                [this] {
                  const std::lock_guard lock(driver_mutex_);
                  return driver_;
                }},
        devices, gpus);
    ASSERT_TRUE(host_->Start(gpus));
  }
  void Read(std::vector<int> xids = {}) {
    clock_.Advance(base::Duration(1'000));
    gpu::Reading reading;
    reading.taken = clock_.Now();
    reading.total_mib = 41'000;
    reading.reserved_mib = 1'000;
    reading.sm_active = 0.1;
    gpu::Reading first = reading;
    first.xids = std::move(xids);
    host_->TakeRound({first, reading}, {});
  }
  void Until(const std::function<bool()>& so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!so() && std::chrono::steady_clock::now() < end) loop_->run_one_until(end);
    ASSERT_TRUE(so());
  }
  // Whether the GPU was closed by the health rules.
  bool ClosedByRule(core::GpuIndex gpu) {
    return host_->engine().scheduler().Gpus(clock_.Now()).at(core::Number(gpu)).drained_by_rule;
  }

  std::string state_dir_;
  base::FakeClock clock_{base::FromMs(10'000'000)};
  std::unique_ptr<store::Store> store_;
  Launching launching_;
  task::FakeLauncher* launcher_ = nullptr;
  Configuration::InForce in_force_;
  Counters counters_;
  FaultOrigins fault_origins_{""};
  void Install(const gpu::InstalledDriver& driver) {
    const std::lock_guard lock(driver_mutex_);
    driver_ = driver;
  }
  std::mutex driver_mutex_;  // the driver versions are read on a separate thread
  gpu::InstalledDriver driver_;
  std::shared_ptr<asio::io_context> loop_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::optional<LoopMeter> loop_meter_;
  std::unique_ptr<EngineHost> host_;
};

TEST_F(EngineHostTest, ATaskThatEndedWhileNoCarmadRanHasNotReachedItsTimeLimit) {
  Open();
  task::TaskSpec spec;
  spec.name = "train";
  spec.command = {"true"};
  spec.workdir = "/";
  spec.stdout_path = "/dev/null";
  spec.gpus = 0;
  spec.time_limit = base::Duration(60'000);
  std::optional<core::TaskId> id;
  host_->Services().engine.Submit({spec}, {1000, 1000, "ada"},
                                  [&](Result<Submitted> answer) { id = answer.value().first; });
  Until([&] { return !launcher_->started.empty(); });
  launcher_->EmitStarted(*id, 1);
  host_->engine().PollLauncher();
  Until([&] { return store_->Get(*id)->record.state == core::TaskState::kRunning; });
  launcher_->EmitExited(*id, 1, 0);
  clock_.Advance(base::Duration(100'000));
  Open();
  Until([&] { return core::IsFinal(store_->Get(*id)->record.state); });
  EXPECT_EQ(store_->Get(*id)->record.state, core::TaskState::kSucceeded);
}

TEST_F(EngineHostTest, RunsATaskFromItsSubmissionToItsEnd) {
  Open();
  const EngineServices services = host_->Services();
  task::TaskSpec spec;
  spec.name = "train";
  spec.command = {"true"};
  spec.workdir = "/";
  spec.stdout_path = "/dev/null";
  std::optional<core::TaskId> id;
  services.engine.Submit({spec}, {1000, 1000, "ada"}, [&](Result<Submitted> answer) {
    ASSERT_TRUE(answer) << answer.error().message;
    id = answer->first;
  });
  Until([&] { return id.has_value(); });
  Read();
  Until([&] { return !launcher_->started.empty(); });
  EXPECT_EQ(counters_.estimates.at("none"), 1U);
  bool ended = false;
  services.when_final(*id, 1'000, [&] { ended = true; });
  launcher_->EmitStarted(*id, 1);
  launcher_->EmitExited(*id, 1, 0);
  host_->engine().PollLauncher();
  Until([&] { return ended; });
  EXPECT_EQ(counters_.ended.at("succeeded"), 1U);
  EXPECT_EQ(store_->Get(*id)->record.state, core::TaskState::kSucceeded);
}

TEST_F(EngineHostTest, PredictionsUseEarlierTasks) {
  task::Observation seen;
  seen.task = core::TaskId{1};
  seen.signature = "the same thing";
  seen.measured_mib = 12'000;
  ASSERT_TRUE(store_->Begin() && store_->AddObservation(seen) && store_->Commit());
  Open();
  EXPECT_EQ(host_->Services().rules.history->OfSignature(seen.signature).size(), 1U);
  in_force_.settings.estimate_history = false;
  Open();
  EXPECT_EQ(host_->Services().rules.history, nullptr);
}

TEST_F(EngineHostTest, NotifiesAdministratorsOfAGpuClosedByRule) {
  Open();
  Read({79});
  Until([&] { return ClosedByRule(kFirst); });
  EXPECT_FALSE(ClosedByRule(kSecond));
  EXPECT_THAT(store_->Drains().value(), ElementsAre(Field(&store::Drain::gpu_uuid, "GPU-a")));
  EXPECT_THAT(
      store_->WaitingNotices(10).value(),
      ElementsAre(
          AllOf(Field(&store::Notice::event, "health"), Field(&store::Notice::target, "mail:root"),
                Field(&store::Notice::message, HasSubstr("is not accepting tasks: Xid 79")))));
}

TEST_F(EngineHostTest, NotifiesAdministratorsOnceOfALostGpu) {
  Open();
  const gpu::ReadError lost(ErrorCode::kNotFound, "GPU is lost", "GPU-a");
  const gpu::ReadError other(ErrorCode::kUnavailable, "the driver has not answered", "GPU-a");
  const auto fails = [&] {
    for (const gpu::ReadError& why : {lost, lost, lost, other, lost})
      host_->TakeRound({std::unexpected(why), std::nullopt}, {});
  };
  const auto notices = [&] { return store_->WaitingNotices(10).value(); };
  fails();
  Until([&] { return !notices().empty(); });
  EXPECT_THAT(notices(), ElementsAre(Field(&store::Notice::message, HasSubstr("GPU is lost"))));
  Read();
  fails();
  Until([&] { return notices().size() > 1; });
  EXPECT_THAT(notices(), SizeIs(2)) << "it had worked in between";
  Read();
  Read({79});
  fails();
  Until([&] { return notices().size() > 2; });
  EXPECT_THAT(notices(), SizeIs(3)) << "the Xid explains the failure";
  EXPECT_THAT(notices(), Contains(Field(&store::Notice::message, HasSubstr("Xid 79"))));
}

TEST_F(EngineHostTest, LimitsNoticesAboutAGpuThatFailsAgainAndAgain) {
  Open();
  const gpu::ReadError fails(ErrorCode::kUnavailable, "timed out", "GPU-a");
  const auto notices = [&] { return store_->WaitingNotices(100).value().size(); };
  const auto flap = [&](int times) {
    for (; times > 0; --times) {
      Read();
      host_->TakeRound({std::unexpected(fails), std::nullopt}, {});
    }
    host_->engine().Turn();
  };
  flap(20);
  EXPECT_EQ(notices(), 5U);
  clock_.Advance(std::chrono::hours(2));
  flap(1);
  EXPECT_EQ(notices(), 6U);
}

TEST_F(EngineHostTest, NotifiesAdministratorsOnceOfADriverThatDoesNotAnswer) {
  Open();
  host_->DriverSilent({ErrorCode::kUnavailable, "the driver is not loaded"});
  host_->DriverSilent({ErrorCode::kUnavailable, "it hangs"});
  const gpu::ReadError fails(ErrorCode::kUnavailable, "timed out", "GPU-a");
  host_->TakeRound({std::unexpected(fails), std::unexpected(fails)}, {});
  host_->engine().Turn();
  EXPECT_THAT(
      store_->WaitingNotices(10).value(),
      ElementsAre(Field(&store::Notice::message, HasSubstr(": the driver is not loaded\""))));
}

TEST_F(EngineHostTest, ADriverUpgradeClosesAllGpusUntilTheNextBoot) {
  Install({"535.183.01", "550.54.15"});
  Open();
  Until([&] { return !host_->monitor().CudaTrouble(kSecond).empty(); });
  Read();
  Until([&] { return ClosedByRule(kFirst) && ClosedByRule(kSecond); });
  EXPECT_THAT(host_->monitor().HealthTrouble(kFirst),
              HasSubstr("driver upgrade: 535.183.01 is loaded, 550.54.15 is installed"));
  EXPECT_THAT(host_->monitor().Troubles(),
              ElementsAre(HasSubstr("until this machine is rebooted")));
  EXPECT_THAT(store_->WaitingNotices(10).value(),
              ElementsAre(Field(&store::Notice::message, HasSubstr("driver upgrade"))));
  Open();  // the next run sends nothing again
  Read();
  EXPECT_THAT(store_->WaitingNotices(10).value(), SizeIs(1));
  Install({"550.54.15", "550.54.15"});
  Open();
  Until([&] { return host_->monitor().CudaTrouble(kSecond).empty(); });
  Read();
  Until([&] { return !ClosedByRule(kFirst) && !ClosedByRule(kSecond); });
}

TEST_F(EngineHostTest, ReopensGpusWhenTheRulesNoLongerCloseThem) {
  Open();
  Read({79});
  Until([&] { return ClosedByRule(kFirst); });
  const config::Settings before = in_force_.settings;
  in_force_.settings.health.drain = false;
  host_->Follow(before);
  Until([&] { return !ClosedByRule(kFirst); });
  EXPECT_THAT(store_->Drains().value(), IsEmpty());
}

TEST_F(EngineHostTest, KeepsDrainsByRuleOfAnEarlierDaemon) {
  Open();
  Read({79});
  Until([&] { return ClosedByRule(kFirst); });
  Open();
  EXPECT_TRUE(ClosedByRule(kFirst));
  EXPECT_THAT(host_->monitor().HealthTrouble(kFirst), HasSubstr("Xid 79"));
  in_force_.settings.health.drain = false;
  Open();
  Until([&] { return !ClosedByRule(kFirst); });
}

TEST_F(EngineHostTest, DoesNotReadAGpuClosedByAnAdministrator) {
  Open();
  EXPECT_THAT(host_->LeftAlone(), IsEmpty());
  bool kept = false;
  host_->Services().engine.Drain({kSecond, "repair"}, [&](const auto&) { kept = true; });
  Until([&] { return kept; });
  EXPECT_THAT(host_->LeftAlone(), ElementsAre(1U));
}

TEST_F(EngineHostTest, StoresTheUseOfTheGpusWhenItStops) {
  Open();
  Read();
  Read();
  host_->Stop();
  const auto usage = store_->Usage(base::FromMs(0), base::FromMs(100'000'000));
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->size(), 2U) << "one row for each GPU";
}

}  // namespace
}  // namespace carma::daemon
