// Tests GPU sharing in the engine, and how reports from the driver and MPS servers explain why
// tasks ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/fake_clock.h"
#include "daemon/engine/engine.h"
#include "task/shim/fake_launcher.h"

namespace carma::daemon {
namespace {

using core::ExitKind;
using core::SharingMethod;
using core::TaskState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// MPS servers that record requests. The test supplies the answers.
class FakeServers : public MpsServers {
 public:
  void Attach(const MpsClient& client, Attached answer) override {
    clients.push_back(client);
    answers.push_back(std::move(answer));
  }
  void Adopt(const MpsClient& client) override { adopted.push_back(client); }
  void Detach(core::TaskId id, int attempt) override { left.emplace_back(id, attempt); }
  void TerminateClients(core::TaskId id, int attempt, std::function<bool(pid_t)>,
                        std::function<void()> done) override {
    terminated.emplace_back(id, attempt);
    after_termination.push_back(std::move(done));
  }
  void AskEvidence(core::TaskId id, int, std::function<void(MpsEvidence)> answer) override {
    MpsEvidence its = evidence;
    if (its.blamed == id) its.blamed.reset();
    answer(its);
  }
  void Blame(core::TaskId id, int) override { evidence.blamed = id; }
  void Seen(core::TaskId, int, const std::vector<pid_t>&) override {}
  std::vector<std::string> Troubles() const override { return {}; }
  void EndOnClosedGpus() override { ++closings; }
  void TakeOver(const std::vector<std::string>&) override {}
  void Close() override {}

  std::vector<MpsClient> clients, adopted;
  std::vector<Attached> answers;
  std::vector<std::pair<core::TaskId, int>> left, terminated;
  std::vector<std::function<void()>> after_termination;
  int closings = 0;
  MpsEvidence evidence;
};

class SharingTest : public ::testing::Test, public Engine::Host {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/carma-sharing-XXXXXX";
    state_dir_ = ::mkdtemp(folder.data());
    options_.state_dir = state_dir_;
    options_.policy.settle = false;
    options_.policy.floor_mib = 0;
    options_.mps = &servers_;
    options_.share_by_mps = true;
    options_.mps_dir = "/m";
    Open();
  }
  void TearDown() override {
    engine_.reset();
    store_.reset();
    std::filesystem::remove_all(state_dir_);
  }
  void Open() {
    engine_.reset();
    store_.reset();
    store_ = store::Store::Open(state_dir_).value();
    engine_ = std::make_unique<Engine>(options_, *store_, launcher_, clock_, *this);
    ASSERT_TRUE(engine_->Start(gpus_));
    for (std::uint32_t i = 0; i < gpus_.size(); ++i) {
      core::GpuSample sample;
      sample.taken = sample.window_from = clock_.Now();
      sample.sm_active = 0.1;
      engine_->Post(core::GpuSampled{core::GpuIndex{i}, sample});
    }
    Settle();
  }
  void Settle() {
    while (std::exchange(turn_wanted_, false)) engine_->Turn();
  }
  core::TaskId Submit(const std::function<void(task::TaskSpec&)>& change = {}) {
    task::TaskSpec spec;
    spec.name = "train";
    spec.command = {"python", "train.py"};
    spec.workdir = "/";
    spec.stdout_path = "/dev/null";
    spec.memory_mib = 5'000;
    spec.memory_source = "given";
    if (change) change(spec);
    core::TaskId id{};
    engine_->Submit({spec}, {1000, 100, "ada"}, [&](Result<Submitted> answer) {
      ASSERT_TRUE(answer) << answer.error().message;
      id = answer->first;
    });
    Settle();
    return id;
  }
  void Answer(const Result<MpsPlace>& attached) {
    ASSERT_FALSE(servers_.answers.empty());
    const MpsServers::Attached answer = std::move(servers_.answers.back());
    servers_.answers.pop_back();
    answer(attached);
    Settle();
  }
  // Submits a task and starts it as an MPS client.
  core::TaskId Client() {
    const core::TaskId id = Submit();
    Answer(MpsPlace{});
    Begin(id);
    return id;
  }
  void Begin(core::TaskId id) {
    launcher_.EmitStarted(id, Record(id).attempt->number, {});
    engine_->PollLauncher();
    Settle();
  }
  core::TaskRecord End(core::TaskId id, const std::string& last_words, int code = 1) {
    launcher_.EmitExited(id, Record(id).attempt->number, code, last_words);
    engine_->PollLauncher();
    Settle();
    return Record(id);
  }
  core::TaskRecord Record(core::TaskId id) { return store_->Get(id).value().record; }

  // Implements Engine::Host.
  void RequestTurn() override { turn_wanted_ = true; }
  void RequestEstimates(std::vector<EstimateJob> jobs) override {
    for (const EstimateJob& job : jobs) {
      std::optional<core::Estimate> estimate;
      if (job.spec.memory_mib) estimate = core::Estimate{*job.spec.memory_mib, "given", {}};
      engine_->Post(core::EstimateReady{job.id, estimate});
    }
  }
  void WakeAt(base::Time) override {}
  void RetryTurnLater() override { FAIL() << engine_->store_trouble(); }
  void TaskChanged(const core::TaskChanged&) override {}
  std::optional<double> RecentFullness(core::GpuIndex) override { return std::nullopt; }
  std::vector<int> RecentXids(core::GpuIndex, base::Time since) override {
    return since > xids_at_ ? std::vector<int>{} : xids_;
  }
  std::string LostGpu(core::GpuIndex) override { return lost_; }
  void AfterNextReading(std::function<void()> call) override {
    ++readings_;
    lost_ = late_lost_;
    xids_.insert(xids_.end(), late_xids_.begin(), late_xids_.end());
    call();
  }

  std::string state_dir_;
  std::vector<core::GpuInfo> gpus_{{"GPU-0", "A100", 41'000, 1'000},
                                   {"GPU-1", "A100", 41'000, 1'000},
                                   {"MIG-2", "A100", 10'000, 0, true}};
  EngineOptions options_;
  base::FakeClock clock_{base::FromMs(1'000'000)};
  FakeServers servers_;
  task::FakeLauncher launcher_;
  std::vector<int> xids_, late_xids_;
  base::Time xids_at_ = base::Time::max();
  std::string lost_, late_lost_;
  int readings_ = 0;
  bool turn_wanted_ = false;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Engine> engine_;
};

// ---- how tasks share ----

TEST_F(SharingTest, AClientStartsOnceItsServerAndItsLimitsAreDurable) {
  const core::TaskId id = Submit([](task::TaskSpec& spec) { spec.sm_share = 0.301; });
  ASSERT_EQ(servers_.clients.size(), 1U);
  EXPECT_EQ(servers_.clients[0].server,
            (task::MpsServerId{1000, 100, servers_.clients[0].server.gpus}));
  EXPECT_THAT(launcher_.started, IsEmpty());
  EXPECT_EQ(Record(id).state, TaskState::kLaunching);
  servers_.answers[0](MpsPlace{});
  EXPECT_THAT(launcher_.started, IsEmpty()) << "it starts only once this is durable";
  Settle();
  ASSERT_EQ(launcher_.started.size(), 1U);
  const core::Sharing sharing = Record(id).attempt->sharing;
  EXPECT_EQ(sharing.method, SharingMethod::kMps);
  EXPECT_EQ(sharing.memory_limit_mib, 5'000 + options_.policy.margin_mib);
  EXPECT_EQ(sharing.thread_percent, 31);
  EXPECT_EQ(sharing.note, "");
  const auto& environment = launcher_.started[0].extra_environment;
  EXPECT_EQ(environment.at("CUDA_MPS_PIPE_DIRECTORY"),
            task::MpsPipeDir("/m", servers_.clients[0].server));
  EXPECT_EQ(environment.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=7048M");
  EXPECT_EQ(environment.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "31");
}

TEST_F(SharingTest, AClientWithAPartitionHasItsSmsInsteadOfALimit) {
  options_.mps_servers = task::MpsScope::kGpu;
  options_.sm_partitions = true;
  Open();
  const core::TaskId id = Submit([](task::TaskSpec& spec) { spec.sm_share = 0.3; });
  EXPECT_EQ(servers_.clients.back().sm_share, 0.3);
  Answer(MpsPlace{.partition = "GPU-0/Dx", .sms = 32});
  core::Sharing sharing = Record(id).attempt->sharing;
  EXPECT_EQ(sharing.partition, "GPU-0/Dx");
  EXPECT_EQ(sharing.partition_sms, 32);
  EXPECT_EQ(sharing.thread_percent, 0);
  const auto& environment = launcher_.started.back().extra_environment;
  EXPECT_EQ(environment.at("CUDA_MPS_SM_PARTITION"), "GPU-0/Dx");
  EXPECT_FALSE(environment.contains("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
  Begin(id);
  const core::TaskId other = Submit([](task::TaskSpec& spec) { spec.sm_share = 0.3; });
  Answer(MpsPlace{.note = "It has none."});
  sharing = Record(other).attempt->sharing;
  EXPECT_EQ(sharing.thread_percent, 30) << "every driver supports this limit";
  EXPECT_EQ(sharing.note, "It has none.");
  Submit();
  EXPECT_EQ(servers_.clients.back().sm_share, 0);
  servers_.adopted.clear();
  Open();
  ASSERT_FALSE(servers_.adopted.empty());
  EXPECT_EQ(servers_.adopted.front().partition, "GPU-0/Dx");
}

TEST_F(SharingTest, ServingTasksHavePriorityOverOtherClients) {
  Submit([](task::TaskSpec& spec) { spec.serve = true; });
  Answer(MpsPlace{});
  Submit();
  Answer(MpsPlace{});
  ASSERT_EQ(launcher_.started.size(), 2U);
  EXPECT_EQ(launcher_.started[0].extra_environment.at("CUDA_MPS_CLIENT_PRIORITY"), "0");
  EXPECT_EQ(launcher_.started[1].extra_environment.at("CUDA_MPS_CLIENT_PRIORITY"), "1");
}

TEST_F(SharingTest, AllUsersHaveOneServerIfItIsShared) {
  options_.mps_servers = task::MpsScope::kShared;
  Open();
  const core::TaskId id = Submit();
  EXPECT_TRUE(servers_.clients.back().server.shared);
  Answer(MpsPlace{});
  const std::string server = Record(id).attempt->sharing.server;
  EXPECT_THAT(server, ::testing::StartsWith("shared:"));
  EXPECT_THAT(Record(id).attempt->sharing.note, HasSubstr("shared by all users"));
  EXPECT_EQ(launcher_.started.back().extra_environment.at("CUDA_MPS_PIPE_DIRECTORY"),
            task::MpsPipeDir("/m", servers_.clients.back().server));
}

TEST_F(SharingTest, TheKernelLimitsATaskToItsPromiseWithAndWithoutMps) {
  options_.limiter = {"/bin/limiter", "memory-limits", "libnvidia-ml.so.1"};
  for (const bool mps : {true, false}) {
    options_.share_by_mps = mps;
    Open();
    const core::TaskId id = Submit();
    if (mps) Answer(MpsPlace{});
    Settle();
    const task::LaunchOrder& order = launcher_.started.back();
    ASSERT_EQ(order.id, id);
    EXPECT_EQ(Record(id).attempt->sharing.group_limit_mib, 5'000 + options_.policy.margin_mib);
    EXPECT_EQ(order.limiter, options_.limiter);
    EXPECT_EQ(order.memory_limits,
              (std::vector<std::string>{order.gpu_uuids.at(0), "5000", "7048"}));
  }
  const core::TaskId unknown = Submit([](task::TaskSpec& spec) { spec.memory_mib.reset(); });
  Settle();
  EXPECT_EQ(Record(unknown).attempt->sharing.group_limit_mib, 0);
  EXPECT_THAT(launcher_.started.back().limiter, IsEmpty()) << "no memory is promised";
}

TEST_F(SharingTest, TheLimitFollowsThePromisesOfOtherTasks) {
  options_.limiter = {"/bin/limiter"};
  options_.share_by_mps = false;
  options_.policy.plateau_after = base::Duration(60'000);
  Open();
  std::map<core::TaskId, std::int64_t> seen_mib;
  const auto sample = [&] {
    clock_.Advance(base::Duration(61'000));
    core::GpuSample seen;
    seen.taken = seen.window_from = clock_.Now();
    seen.sm_active = 0.1;
    for (const auto& [id, mib] : seen_mib) {
      seen.tasks_mib.emplace_back(id, mib);
      seen.used_mib += mib;
    }
    engine_->Post(core::GpuSampled{core::GpuIndex{0}, seen});
    Settle();
  };
  const auto limit = [&](core::TaskId id) { return Record(id).attempt->sharing.group_limit_mib; };
  const auto needs = [](std::int64_t mib) {
    return [mib](task::TaskSpec& spec) { spec.memory_mib = mib; };
  };
  const core::TaskId stands = Submit(needs(30'000));
  Begin(stands);
  seen_mib[stands] = 8'000;
  sample();
  sample();
  EXPECT_EQ(limit(stands), 32'048);
  EXPECT_THAT(launcher_.limited, IsEmpty()) << "no other task is promised that memory";
  launcher_.can_limit = false;
  const core::TaskId late = Submit(needs(20'000));
  Begin(late);
  sample();
  EXPECT_EQ(limit(stands), 32'048) << "the limit could not be changed";
  launcher_.can_limit = true;
  sample();
  EXPECT_EQ(limit(stands), 20'000);
  EXPECT_EQ(limit(late), 22'048);
  ASSERT_EQ(launcher_.limited.size(), 1U);
  EXPECT_EQ(launcher_.limited[0],
            (std::pair(stands, std::vector<std::string>{"GPU-0", "8540", "20000"})));
  // The growing task is promised its whole claim again, but part of that memory has since been
  // promised to others.
  seen_mib[stands] = 15'000;
  sample();
  EXPECT_EQ(limit(stands), 20'000);
  EXPECT_EQ(limit(late), 22'048);
  End(late, "", 0);
  sample();
  EXPECT_EQ(limit(stands), 32'048);
}

TEST_F(SharingTest, ReportsAKernelThatDoesNotLimitATask) {
  options_.limiter = {"/bin/limiter"};
  options_.share_by_mps = false;
  Open();
  const core::TaskId id = Submit();
  Settle();
  launcher_.Emit({.kind = task::ShimEventKind::kStarted,
                  .id = id,
                  .attempt = 1,
                  .process = {1, 1},
                  .no_limit = "Not Found (NVML 6)"});
  engine_->PollLauncher();
  Settle();
  EXPECT_EQ(Record(id).attempt->sharing.group_limit_mib, 0);
  EXPECT_EQ(Record(id).attempt->sharing.note,
            "The kernel does not limit the task's GPU memory: Not Found (NVML 6).");
}

TEST_F(SharingTest, TheLimitIsNeverMoreThanTheGpuAndNeedsAPromise) {
  const core::TaskId large = Submit([](task::TaskSpec& spec) { spec.memory_mib = 39'000; });
  Answer(MpsPlace{});
  EXPECT_EQ(Record(large).attempt->sharing.memory_limit_mib, 40'000);
  const core::TaskId unknown = Submit([](task::TaskSpec& spec) { spec.memory_mib.reset(); });
  Answer(MpsPlace{});
  EXPECT_EQ(Record(unknown).attempt->sharing.method, SharingMethod::kMps);
  EXPECT_EQ(Record(unknown).attempt->sharing.memory_limit_mib, 0);
  EXPECT_FALSE(
      launcher_.started.back().extra_environment.contains("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
}

TEST_F(SharingTest, WithoutAServerATaskStartsWithStreamsAndANote) {
  const core::TaskId id = Submit();
  Answer(Unavailable("the control daemon hangs"));
  ASSERT_EQ(launcher_.started.size(), 1U);
  EXPECT_EQ(Record(id).attempt->sharing.method, SharingMethod::kStreams);
  EXPECT_EQ(Record(id).attempt->sharing.note, "Without MPS: the control daemon hangs.");
  EXPECT_THAT(launcher_.started[0].extra_environment,
              ::testing::Contains(Pair("CUDA_MPS_PIPE_DIRECTORY", "/dev/null")));
}

TEST_F(SharingTest, TasksThatAreNoMpsClientsNeedNoServer) {
  engine_->Post(core::DrainRequested{core::GpuIndex{1}, "test"});
  Settle();
  const core::TaskId alone = Submit([](task::TaskSpec& spec) {
    spec.exclusive = true;
    spec.environment["CUDA_MPS_PIPE_DIRECTORY"] = "/mine";
  });
  EXPECT_EQ(Record(alone).attempt->sharing.method, SharingMethod::kAlone)
      << "stored together with the decision";
  EXPECT_FALSE(launcher_.started.back().extra_environment.contains("CUDA_MPS_PIPE_DIRECTORY"));
  const core::TaskId instance = Submit([](task::TaskSpec& spec) { spec.sm_share = 0.5; });
  EXPECT_EQ(Record(instance).attempt->sharing.method, SharingMethod::kMig);
  EXPECT_THAT(Record(instance).attempt->sharing.note,
              HasSubstr("Its share of the SMs is not limited"));
  EXPECT_EQ(engine_->scheduler().Find(instance)->attempt->sharing,
            Record(instance).attempt->sharing);
  EXPECT_EQ(launcher_.started.size(), 2U);
  EXPECT_THAT(servers_.clients, IsEmpty());
}

TEST_F(SharingTest, AnExclusiveTaskSubmittedByAClientHasNoneOfItsMpsSettings) {
  Submit([](task::TaskSpec& spec) {
    spec.exclusive = true;
    spec.environment = {{"CUDA_MPS_PIPE_DIRECTORY", "/m/1000/GPU0"},
                        {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=5000M"}};
  });
  ASSERT_EQ(launcher_.started.size(), 1U);
  EXPECT_THAT(launcher_.started[0].spec.environment, IsEmpty());
  EXPECT_EQ(launcher_.started[0].extra_environment.at("CUDA_MPS_PIPE_DIRECTORY"), "/dev/null");
}

TEST_F(SharingTest, AnImmediateRestartRemovesTheFolderOfTheLastAttempt) {
  const core::TaskId id = Client();
  engine_->Post(core::GpuHealthChanged{core::GpuIndex{0}, false, true, "fell off the bus"});
  Settle();
  servers_.after_termination.back()();
  End(id, "", 143);
  ASSERT_EQ(Record(id).attempt->number, 2);
  const auto first = ::testing::Field(&task::FakeLauncher::Call::attempt, 1);
  EXPECT_THAT(launcher_.forgotten, ElementsAre(first))
      << "it restarts in the turn in which it ended";
}

TEST_F(SharingTest, TasksOfSeveralGpusShareByStreams) {
  const core::TaskId both = Submit([](task::TaskSpec& spec) {
    spec.gpus = 2;
    spec.environment["CUDA_MPS_PIPE_DIRECTORY"] = "/mine";
  });
  EXPECT_EQ(Record(both).attempt->sharing.method, SharingMethod::kStreams);
  EXPECT_THAT(Record(both).attempt->sharing.note, HasSubstr("several GPUs"));
  Begin(both);
  EXPECT_EQ(store_->Events(both, {}, 10).value().back().text, "GPUs 0,1");
  EXPECT_EQ(launcher_.started.back().extra_environment.at("CUDA_MPS_PIPE_DIRECTORY"), "/dev/null");
  EXPECT_THAT(servers_.clients, IsEmpty());
}

TEST_F(SharingTest, AServerForAllGpusTakesTasksOfSeveralGpus) {
  options_.mps_servers = task::MpsScope::kUser;
  Open();
  const core::TaskId both = Submit([](task::TaskSpec& spec) { spec.gpus = 2; });
  ASSERT_EQ(servers_.clients.size(), 1U);
  EXPECT_EQ(servers_.clients[0].server.gpus, "GPU-0,GPU-1");
  EXPECT_THAT(servers_.clients[0].gpus, UnorderedElementsAre("GPU-0", "GPU-1"));
  Answer(MpsPlace{});
  EXPECT_EQ(Record(both).attempt->sharing.method, SharingMethod::kMps);
  EXPECT_EQ(Record(both).attempt->sharing.note, "");
  const core::TaskId one = Submit([](task::TaskSpec&) {});
  ASSERT_EQ(servers_.clients.size(), 2U);
  EXPECT_EQ(servers_.clients[1].server, servers_.clients[0].server) << "task " << core::Number(one);
}

TEST_F(SharingTest, ATaskCanBeStoppedBeforeItsServerAnswers) {
  const core::TaskId id = Submit();
  engine_->Post(core::CancelRequested{id, "ada"});
  Settle();
  EXPECT_EQ(Record(id).state, TaskState::kCancelled);
  EXPECT_THAT(servers_.left, ::testing::Contains(Pair(id, 1)));
  Answer(MpsPlace{});
  EXPECT_THAT(launcher_.started, IsEmpty());
}

TEST_F(SharingTest, AClientIsRemovedFromItsServerBeforeItIsStopped) {
  const core::TaskId id = Client();
  engine_->Post(core::CancelRequested{id, "ada"});
  Settle();
  EXPECT_THAT(servers_.terminated, ElementsAre(Pair(id, 1)));
  EXPECT_THAT(launcher_.stopped, IsEmpty());
  servers_.after_termination.front()();
  EXPECT_EQ(launcher_.stopped.size(), 1U);
  EXPECT_THAT(launcher_.stop_reasons, ElementsAre("Cancelled by ada."));
}

TEST_F(SharingTest, TheNextDaemonAdoptsClientsWithTheirServers) {
  const core::TaskId id = Client();
  const core::Sharing sharing = Record(id).attempt->sharing;
  Open();
  ASSERT_EQ(servers_.adopted.size(), 1U);
  EXPECT_EQ(servers_.adopted[0].id, id);
  EXPECT_EQ(servers_.adopted[0].server, servers_.clients[0].server);
  EXPECT_EQ(Record(id).attempt->sharing, sharing);
  EXPECT_EQ(engine_->scheduler().Find(id)->attempt->sharing, sharing);
}

TEST_F(SharingTest, ARunningTaskKeepsGpusThatAreNotManagedForAWhile) {
  const std::vector<core::GpuInfo> all = gpus_;
  const core::TaskId both = Submit([](task::TaskSpec& spec) { spec.gpus = 2; });
  Begin(both);
  gpus_ = {all[1]};
  Open();
  ASSERT_EQ(engine_->scheduler().Find(both)->attempt->placement.size(), 1U);
  engine_->Post(core::PriorityChanged{both, 5});
  Settle();
  ASSERT_EQ(Record(both).request->priority, 5) << "the task was stored";
  EXPECT_THAT(store_->Get(both)->gpu_uuids, ElementsAre("GPU-1", "GPU-0"));
  EXPECT_EQ(Record(both).attempt->placement.at(0).gpu, core::GpuIndex{0});
  EXPECT_EQ(Record(both).attempt->placement.at(1).gpu, core::GpuIndex{1}) << "no managed GPU";
  gpus_ = all;
  Open();
  EXPECT_EQ(engine_->scheduler().Find(both)->attempt->placement.size(), 2U);
}

TEST_F(SharingTest, ADaemonThatEndedBeforeTheStartOfAClientRetriesIt) {
  const core::TaskId id = Submit();
  Open();
  EXPECT_THAT(launcher_.started, IsEmpty());
  launcher_.Emit({.kind = task::ShimEventKind::kLaunchFailed,
                  .id = id,
                  .attempt = 1,
                  .retryable = true,
                  .interrupted = true});
  engine_->PollLauncher();
  Settle();
  EXPECT_EQ(Record(id).attempt->number, 2);
  Answer(MpsPlace{});
  EXPECT_EQ(launcher_.started.size(), 1U);
}

TEST_F(SharingTest, DrainingAGpuOrTheWholeServerEndsUnusedServers) {
  engine_->Drain({core::GpuIndex{1}, "test"});
  Settle();
  EXPECT_EQ(servers_.closings, 1);
  engine_->Close({"upgrade", clock_.Now()});
  Settle();
  EXPECT_EQ(servers_.closings, 2);
}

TEST_F(SharingTest, ATaskLearnsItsDeadlineByTheMachinesClock) {
  Client();
  const base::Time before = base::SystemClock().Now();
  engine_->Close({"upgrade", clock_.Now() + base::Duration(10'000)});
  Settle();
  ASSERT_EQ(launcher_.asked_to_save.size(), 1U);
  EXPECT_GE(launcher_.asked_to_save[0], before + base::Duration(10'000));
  EXPECT_LE(launcher_.asked_to_save[0], base::SystemClock().Now() + base::Duration(10'000));
}

TEST_F(SharingTest, ARestartDuringTheNoticeIsNotAnotherRequestInTheHistory) {
  const core::TaskId id = Client();
  engine_->Close({"upgrade", clock_.Now() + base::Duration(10'000)});
  Settle();
  Open();
  EXPECT_EQ(launcher_.asked_to_save.size(), 2U) << "the signal might not have been sent";
  const std::vector<store::StoredEvent> events = store_->Events(id, {}, 100).value();
  EXPECT_EQ(std::ranges::count(events, store::EventKind::kAsked, &store::StoredEvent::kind), 1);
}

// ---- why tasks ended ----

constexpr const char* kIllegal =
    "RuntimeError: CUDA error: an illegal memory access was encountered\n";

TEST_F(SharingTest, BlamesTheFirstOfSeveralTasksWithTheSameFault) {
  const core::TaskId first = Client();
  const core::TaskId second = Client();
  servers_.evidence.broke = true;
  EXPECT_EQ(End(first, kIllegal).exit->kind, ExitKind::kGpuFault);
  EXPECT_EQ(Record(first).state, TaskState::kFailed);
  EXPECT_THAT(servers_.left, ElementsAre(Pair(first, 1)));
  const core::TaskRecord victim = End(second, kIllegal);
  EXPECT_EQ(victim.exit->kind, ExitKind::kVictim);
  EXPECT_EQ(victim.state, TaskState::kQueued);
  EXPECT_EQ(victim.victim_restarts, 1);
}

TEST_F(SharingTest, ATaskThatEndsWithoutMessageOnABrokenServerIsAVictim) {
  const core::TaskId id = Client();
  EXPECT_EQ(End(Client(), "").exit->kind, ExitKind::kFailed) << "the server is healthy";
  servers_.evidence.broke = true;
  EXPECT_EQ(End(id, "").exit->kind, ExitKind::kVictim);
}

TEST_F(SharingTest, ABrokenServerExcusesOnlyItsClients) {
  servers_.evidence.broke = true;
  const core::TaskId id = Submit([](task::TaskSpec& spec) { spec.exclusive = true; });
  Begin(id);
  EXPECT_EQ(End(id, "").exit->kind, ExitKind::kFailed);
}

TEST_F(SharingTest, AnEndWithTheMessageOfAFaultWaitsForTheDriversReport) {
  late_xids_ = {31};
  const core::TaskId id = Client();
  const core::TaskRecord record = End(id, "CUDA error: unspecified launch failure\n");
  EXPECT_EQ(readings_, 1);
  EXPECT_EQ(record.exit->kind, ExitKind::kGpuFault);
  EXPECT_THAT(record.exit->detail, HasSubstr("Xid 31"));
  EXPECT_EQ(End(Client(), "ValueError: x\n").exit->kind, ExitKind::kFailed);
  EXPECT_EQ(readings_, 1) << "an ordinary failure does not wait for a reading";
}

TEST_F(SharingTest, XidsBeforeTheStartAreNotTheTasksFault) {
  xids_ = {31};
  EXPECT_EQ(End(Client(), "").exit->kind, ExitKind::kGpuFault);
  xids_at_ = clock_.Now();
  clock_.Advance(base::Duration(1'000));
  EXPECT_EQ(End(Client(), "").exit->kind, ExitKind::kFailed);
}

TEST_F(SharingTest, RestartsATaskThatEndsWithItsLostGpu) {
  late_lost_ = "GPU is lost";
  const core::TaskId id = Client();
  const core::TaskRecord record = End(id, "RuntimeError: CUDA error: unknown error\n");
  EXPECT_EQ(readings_, 1) << "the last reading may be older than the loss";
  EXPECT_EQ(record.exit->kind, ExitKind::kDeviceFault);
  EXPECT_EQ(record.exit->detail, "GPU is lost");
  EXPECT_EQ(record.node_failures, 1);
  EXPECT_FALSE(core::IsFinal(record.state));
  lost_ = late_lost_ = "";
  EXPECT_EQ(End(Client(), "RuntimeError: CUDA error: unknown error\n").exit->kind,
            ExitKind::kFailed);
}

TEST_F(SharingTest, ADeviceFaultIsNotTheTasksFault) {
  const core::TaskId id = Client();
  xids_ = {79};
  const core::TaskRecord record = End(id, "");
  EXPECT_EQ(record.exit->kind, ExitKind::kDeviceFault);
  EXPECT_THAT(record.exit->detail, HasSubstr("Xid 79: "));
  EXPECT_FALSE(core::IsFinal(record.state));
  xids_.clear();
}

TEST_F(SharingTest, ATaskThatRanOutOfMemoryIsNeitherVictimNorFault) {
  const core::TaskId id = Client();
  xids_ = {79};
  servers_.evidence.broke = true;
  EXPECT_EQ(End(id, "torch.OutOfMemoryError: CUDA out of memory.\n").exit->kind,
            ExitKind::kOutOfMemory);
}

TEST_F(SharingTest, AProgramFaultMayBeTheNeighboursFault) {
  options_.policy.mapper = "first-fit";
  Open();
  const core::TaskId first = Client();
  const core::TaskId second = Client();
  ASSERT_EQ(Record(first).attempt->placement, Record(second).attempt->placement);
  xids_ = {13};
  EXPECT_EQ(End(first, "").exit->kind, ExitKind::kFailed);
  EXPECT_EQ(End(second, "").exit->kind, ExitKind::kGpuFault) << "it is now alone on the GPU";
}

TEST_F(SharingTest, FindsTheTaskOfAProcessEvenBeforeItsStartIsReported) {
  const core::TaskId id = Submit();
  EXPECT_EQ(engine_->TaskOfProcess(::getpid()), std::nullopt);
  launcher_.shims[::getppid()] = id;
  EXPECT_EQ(engine_->TaskOfProcess(::getpid()), id);
}

}  // namespace
}  // namespace carma::daemon
