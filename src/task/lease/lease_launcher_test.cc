// Uses real processes to test how leases are granted, adopted and ended, and how a new daemon
// restores them.
#include "task/lease/lease_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/spawn.h"
#include "base/test_fields.h"
#include "task/process/process_tree.h"
#include "task/shim/fake_launcher.h"

namespace carma::task {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr core::TaskId kTask{7};

// A child process that may be granted a lease. By default it only sleeps.
class Stranger {
 public:
  explicit Stranger(const std::vector<std::string>& command = {"sleep", "10000"},
                    base::SpawnOptions options = {}) {
    if (options.files.empty()) options.files = {"/dev/null", "/dev/null", "/dev/null"};
    const auto spawned = base::Spawn(command, options);
    pid_ = spawned ? spawned->pid : 0;
    process_ = FindLeaseProcess(pid_).value_or(LeaseProcess{});
  }
  ~Stranger() { End(); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  const LeaseProcess& process() const { return process_; }
  void Stop() const { SignalUntil(SIGSTOP, true); }
  void GoOn() const { SignalUntil(SIGCONT, false); }
  // Kills the process and returns the status that its parent receives.
  int End(int number = SIGKILL) {
    int status = 0;
    if (pid_ == 0) return status;
    if (number != 0) ::kill(pid_, number);
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  void SignalUntil(int number, bool stopped) const {
    ::kill(pid_, number);
    for (int i = 0; i < 6000; ++i) {
      if ((base::ReadProcessStat(pid_)->state == 'T') == stopped) return;
      ::poll(nullptr, 0, 10);
    }
  }

  pid_t pid_ = 0;
  LeaseProcess process_;
};

constexpr uid_t kNobody = 65'534;

// A process that root starts as another user. It only waits.
class Bystander {
 public:
  explicit Bystander(uid_t uid, uid_t effective = kNobody) {
    const base::Pipe ready = *base::MakePipe();
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::setresuid(uid, effective, effective) != 0) ::_exit(1);
      ::signal(SIGINT, SIG_DFL);  // a test in the background inherits SIG_IGN
      (void)!::write(ready.write.get(), "x", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready.read.get(), &byte, 1), 1);
    process_ = FindLeaseProcess(pid_).value_or(LeaseProcess{});
  }
  ~Bystander() { End(SIGKILL); }
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;
  const LeaseProcess& process() const { return process_; }
  int End(int number) {
    int status = 0;
    if (pid_ == 0) return status;
    if (number != 0) ::kill(pid_, number);
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = 0;
  LeaseProcess process_;
};

// A process named carma-wait, as real waiting processes are. GoOn() lets it run the command `then`.
class Waiter {
 public:
  explicit Waiter(const std::string& then)
      : stranger_({"sh", "-c", "printf carma-wait > /proc/$$/comm; echo; read word; " + then},
                  {.files = {go_.read.get(), named_.write.get(), "/dev/null"}}) {
    named_.write.reset();
    go_.read.reset();
    char byte = 0;
    EXPECT_EQ(::read(named_.read.get(), &byte, 1), 1);
  }
  const LeaseProcess& process() const { return stranger_.process(); }
  void GoOn() { go_.write.reset(); }
  int End(int number = SIGKILL) { return stranger_.End(number); }

 private:
  base::Pipe go_ = *base::MakePipe(), named_ = *base::MakePipe();
  Stranger stranger_;
};

class LeaseLauncherTest : public ::testing::Test {
 protected:
  LeaseLauncherTest() {
    std::string folder = ::testing::TempDir() + "/carma-lease-XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    Restart();
  }
  ~LeaseLauncherTest() override { std::filesystem::remove_all(folder_); }

  // Replaces a killed daemon with a new one.
  void Restart() {
    auto others = std::make_unique<FakeLauncher>();
    others_ = others.get();
    auto made = LeaseLauncher::Make(std::move(others), options_);
    ASSERT_TRUE(made) << made.error().message;
    launcher_ = *std::move(made);
    launcher_->Listen(
        {.gone = [this](core::TaskId id) { gone_.push_back(id); },
         .granted = [this](core::TaskId id) { granted_.push_back(id); },
         .joined = [this](core::TaskId,
                          const base::ProcessId& process) { joined_.push_back(process); }});
    joined_.clear();
    events_.clear();
  }
  std::string Dir() const { return folder_ + "/attempts/7/1"; }
  LaunchOrder Order(const LeaseProcess& process) const {
    LaunchOrder order;
    order.id = kTask;
    order.attempt_dir = Dir();
    order.spec.name = "train";
    order.spec.lease = TextOf(process);
    order.gpu_uuids = {"GPU-a", "GPU-b"};
    order.extra_environment = {{"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"}};
    order.uid = ::getuid();
    order.kill_grace = base::Duration(60'000);
    return order;
  }
  KnownAttempt Known(bool started) const {
    return {.id = kTask, .number = 1, .dir = Dir(), .started = started};
  }
  void Poll() {
    launcher_->Poll([this](const ShimEvent& event) { events_.push_back(event); });
  }
  // Waits up to a minute for the next event.
  ShimEvent Next() {
    for (int i = 0; i < 600 && events_.empty(); ++i) {
      pollfd ready{launcher_->PollFd(), POLLIN, 0};
      ::poll(&ready, 1, 100);
      Poll();
    }
    if (events_.empty()) {
      ADD_FAILURE() << "no event";
      return {};
    }
    ShimEvent event = events_.front();
    events_.erase(events_.begin());
    return event;
  }

  std::string folder_;
  // `daemon` is 0, because children of this process must be able to have leases.
  LeaseLauncher::Options options_{.daemon = 0};
  FakeLauncher* others_ = nullptr;
  std::unique_ptr<LeaseLauncher> launcher_;
  std::vector<core::TaskId> gone_, granted_;
  std::vector<base::ProcessId> joined_;
  std::vector<ShimEvent> events_;
};

TEST_F(LeaseLauncherTest, ALeaseIsGrantedAdoptedAndEndsWithItsProcess) {
  Stranger stranger;
  launcher_->Watch(kTask, stranger.process());
  EXPECT_FALSE(launcher_->Granted(kTask));
  EXPECT_EQ(launcher_->AdoptLease(kTask, stranger.process()).error().code, ErrorCode::kConflict)
      << "it is not granted yet";
  launcher_->Start(Order(stranger.process()));
  EXPECT_TRUE(launcher_->Granted(kTask));
  Poll();
  EXPECT_THAT(granted_, ElementsAre(kTask));
  EXPECT_THAT(events_, IsEmpty()) << "no process yet";
  const auto environment = launcher_->AdoptLease(kTask, stranger.process());
  ASSERT_TRUE(environment) << environment.error().message;
  EXPECT_EQ(environment->at("CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-b");
  EXPECT_EQ(environment->at("CUDA_MPS_PIPE_DIRECTORY"), "/run/mps");
  EXPECT_EQ(environment->at("CARMA_TASK_ID"), "7");
  const ShimEvent started = Next();
  EXPECT_EQ(started.kind, ShimEventKind::kStarted);
  EXPECT_EQ(started.process, stranger.process().process);
  EXPECT_EQ(*launcher_->AdoptLease(kTask, stranger.process()), *environment) << "asked again";
  stranger.End();
  const ShimEvent exited = Next();
  EXPECT_EQ(exited.kind, ShimEventKind::kExited);
  EXPECT_EQ(exited.exit_code, 0);
  EXPECT_FALSE(exited.lost);
  EXPECT_FALSE(exited.ended_before_adoption);
  EXPECT_THAT(launcher_->Leases(), IsEmpty());
}

TEST_F(LeaseLauncherTest, OnlyOneProcessAdoptsALease) {
  Stranger first, second;
  launcher_->Start(Order(first.process()));
  ASSERT_TRUE(launcher_->AdoptLease(kTask, second.process())) << "it has the same owner";
  const auto refused = launcher_->AdoptLease(kTask, first.process());
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("has already been adopted by process"));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  first.End();
  Poll();
  EXPECT_THAT(events_, IsEmpty()) << "the requester is not the holder";
}

TEST_F(LeaseLauncherTest, AStoppedProcessGetsTheStopSignalToo) {
  Stranger stranger;
  LaunchOrder order = Order(stranger.process());
  order.kill_grace = base::Duration(2'000);
  launcher_->Start(order);
  ASSERT_TRUE(launcher_->AdoptLease(kTask, stranger.process()));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  stranger.Stop();
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(Next().kind, ShimEventKind::kExited);
  EXPECT_EQ(WTERMSIG(stranger.End(0)), SIGTERM);
}

// The lease is for a step of a job, and this process is the step's keeper.
TEST_F(LeaseLauncherTest, AnyProcessBelowTheKeeperMayAdopt) {
  const LeaseProcess keeper = *FindLeaseProcess(::getpid());
  LaunchOrder order = Order(keeper);
  order.spec.lease_key = TextOf(LeaseKey{.cluster = "bed", .job = 12, .step = "0"});
  launcher_->Start(order);
  EXPECT_EQ(launcher_->LeasesOfJob(12).size(), 1U);
  EXPECT_THAT(launcher_->LeasesOfJob(13), IsEmpty());
  const LeaseProcess above = *FindLeaseProcess(1);
  EXPECT_EQ(launcher_->AdoptLease(kTask, above).error().code, ErrorCode::kDenied);
  Stranger first, second;
  const auto environment = launcher_->AdoptLease(kTask, first.process());
  ASSERT_TRUE(environment) << environment.error().message;
  EXPECT_EQ(Next().process, first.process().process) << "the keeper is not the task";
  EXPECT_EQ(*launcher_->AdoptLease(kTask, second.process()), *environment);
  first.End();
  Poll();
  Restart();
  launcher_->Adopt({.id = kTask, .number = 1, .dir = Dir(), .started = true});
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  EXPECT_EQ(*launcher_->AdoptLease(kTask, second.process()), *environment);
  EXPECT_EQ(launcher_->LeasesOfJob(12).size(), 1U) << "found by its key";
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(WTERMSIG(second.End(0)), SIGTERM) << "but its keeper, this test, is alive";
  Poll();
  EXPECT_THAT(events_, IsEmpty()) << "its keeper may start more processes";
  ASSERT_TRUE(launcher_->EndLease(kTask, {.exit_code = 2}));
  EXPECT_EQ(Next().exit_code, 2);
}

TEST_F(LeaseLauncherTest, RecordsOutputFilesOfAStep) {
  const std::string log = folder_ + "/train log";
  Stranger keeper, script({"sh", "-c", "exec sleep 10000 > \"$0\" 2>&1", log});
  for (int i = 0; i < 6000 && !std::filesystem::exists(log); ++i) ::poll(nullptr, 0, 10);
  LaunchOrder order = Order(*FindLeaseProcess(::getpid()));
  order.spec.lease_key = TextOf(LeaseKey{.cluster = "bed", .job = 12, .step = "batch"});
  launcher_->Start(order);
  ASSERT_TRUE(launcher_->AdoptLease(kTask, script.process()));
  EXPECT_THAT(launcher_->Outputs(kTask), IsEmpty());
  launcher_->SeenOnGpus(kTask, {script.process().process.pid});
  EXPECT_THAT(launcher_->Outputs(kTask), ElementsAre(::testing::EndsWith("/train log")));
}

TEST_F(LeaseLauncherTest, AnotherStepThatJoinsKeepsTheLeaseAlive) {
  Stranger keeper, other;
  LaunchOrder order = Order(keeper.process());
  order.spec.lease_key = TextOf(LeaseKey{.cluster = "bed", .job = 12, .step = "batch"});
  launcher_->Start(order);
  EXPECT_FALSE(launcher_->JoinLease(kTask, other.process())) << "not adopted yet";
  ASSERT_TRUE(launcher_->AdoptLease(kTask, keeper.process()));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  ASSERT_TRUE(launcher_->JoinLease(kTask, other.process()));
  EXPECT_TRUE(launcher_->AdoptLease(kTask, other.process()));
  Poll();
  EXPECT_THAT(joined_, ElementsAre(keeper.process().process, other.process().process));
  keeper.End();
  Poll();
  EXPECT_THAT(events_, IsEmpty());
  other.End();
  EXPECT_EQ(Next().kind, ShimEventKind::kExited);
}

TEST_F(LeaseLauncherTest, AWaitingProcessThatEndsEndsItsLease) {
  Stranger waits, granted;
  launcher_->Watch(kTask, waits.process());
  waits.End();
  for (int i = 0; i < 600 && gone_.empty(); ++i) {
    pollfd ready{launcher_->PollFd(), POLLIN, 0};
    ::poll(&ready, 1, 100);
    Poll();
  }
  EXPECT_THAT(gone_, ElementsAre(kTask));
  launcher_->Start(Order(granted.process()));
  granted.End();
  const ShimEvent failed = Next();
  EXPECT_EQ(failed.kind, ShimEventKind::kLaunchFailed);
  EXPECT_FALSE(failed.retryable);
  EXPECT_THAT(failed.text, HasSubstr("has exited"));
}

// The kernel removes a process step by step, so two checks of it may differ.
TEST_F(LeaseLauncherTest, NoticesManyProcessesThatEndDuringACheck) {
  constexpr int kProcesses = 600;
  std::deque<Stranger> strangers(kProcesses);
  for (int i = 0; i < kProcesses; ++i)
    launcher_->Watch(core::TaskId{100 + static_cast<std::uint64_t>(i)},
                     strangers[static_cast<std::size_t>(i)].process());
  std::jthread killer([&strangers] {
    for (Stranger& each : strangers) each.End();
  });
  for (int i = 0; i < 3000 && gone_.size() < kProcesses; ++i) {
    pollfd events{launcher_->PollFd(), POLLIN, 0};
    ::poll(&events, 1, 10);
    launcher_->Poll([](const ShimEvent&) {});
  }
  EXPECT_EQ(gone_.size(), kProcesses);
  EXPECT_THAT(launcher_->Leases(), IsEmpty());
}

TEST_F(LeaseLauncherTest, WithdrawsAGrantThatIsNotAdopted) {
  options_.adoption_limit = std::chrono::milliseconds(20);
  Restart();
  Stranger stranger;
  launcher_->Start(Order(stranger.process()));
  EXPECT_THAT(Next().text, HasSubstr("not adopted within"));
  EXPECT_FALSE(launcher_->AdoptLease(kTask, stranger.process())) << "too late";
}

TEST_F(LeaseLauncherTest, ARestartedDaemonFindsTheLeaseInItsState) {
  Stranger stranger;
  launcher_->Start(Order(stranger.process()));
  Restart();
  launcher_->Adopt(Known(false));
  EXPECT_TRUE(launcher_->Granted(kTask)) << "granted";
  const auto environment = launcher_->AdoptLease(kTask, stranger.process());
  ASSERT_TRUE(environment) << environment.error().message;
  EXPECT_EQ(environment->at("CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-b");
  // The daemon was killed before it noticed the adoption.
  Restart();
  launcher_->Adopt(Known(false));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted) << "adopted";
  EXPECT_EQ(*launcher_->AdoptLease(kTask, stranger.process()), *environment);
  Stranger other;
  EXPECT_FALSE(launcher_->AdoptLease(kTask, other.process()));
  Restart();
  stranger.End();
  launcher_->Adopt(Known(true));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  const ShimEvent exited = Next();
  EXPECT_EQ(exited.kind, ShimEventKind::kExited);
  EXPECT_TRUE(exited.ended_before_adoption);
}

TEST_F(LeaseLauncherTest, TheReportOfTheEndCountsOnceAndSurvivesARestart) {
  Stranger stranger;
  launcher_->Start(Order(stranger.process()));
  EXPECT_FALSE(launcher_->EndLease(kTask, {.exit_code = 3})) << "not adopted";
  ASSERT_TRUE(launcher_->AdoptLease(kTask, stranger.process()));
  ASSERT_TRUE(launcher_->EndLease(kTask, {.exit_code = 3, .stderr_tail = "CUDA out of memory"}));
  Restart();
  launcher_->Adopt(Known(true));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  const ShimEvent exited = Next();
  EXPECT_EQ(exited.exit_code, 3);
  EXPECT_EQ(exited.stderr_tail, "CUDA out of memory");
  EXPECT_FALSE(launcher_->EndLease(kTask, {.exit_code = 4}));
}

TEST_F(LeaseLauncherTest, AStopEndsItsProcess) {
  Stranger stranger;
  launcher_->Start(Order(stranger.process()));
  ASSERT_TRUE(launcher_->AdoptLease(kTask, stranger.process()));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(WTERMSIG(stranger.End(0)), SIGTERM);
  EXPECT_EQ(Next().kind, ShimEventKind::kExited);

  Stranger waits;
  std::filesystem::remove_all(folder_ + "/attempts");
  launcher_->Start(Order(waits.process()));
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(Next().kind, ShimEventKind::kLaunchFailed);
  EXPECT_TRUE(Alive(waits.process())) << "it was not the task";
}

TEST_F(LeaseLauncherTest, AnotherUsersProcessIsNotSignalled) {
  Stranger stranger;
  LaunchOrder order = Order(stranger.process());
  order.uid = ::getuid() + 1;
  launcher_->Start(order);
  ASSERT_TRUE(launcher_->AdoptLease(kTask, stranger.process()));
  launcher_->Stop(kTask, 1);
  EXPECT_TRUE(Alive(stranger.process()));
  EXPECT_EQ(WTERMSIG(stranger.End(SIGINT)), SIGINT) << "no other signal came before";
}

TEST_F(LeaseLauncherTest, SignalsOnlyRootsProcessesOfRootsLease) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root";
  Bystander other(kNobody);
  LaunchOrder order = Order(other.process());
  order.uid = 0;
  launcher_->Start(order);
  ASSERT_TRUE(launcher_->AdoptLease(kTask, other.process()));
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(WTERMSIG(other.End(SIGINT)), SIGINT) << "no other signal came before";
}

TEST_F(LeaseLauncherTest, AProcessThatNowBelongsToAnotherUserLosesItsGpus) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root";
  options_.kill_limit = std::chrono::milliseconds(20);
  Restart();
  Bystander other(kNobody);
  LaunchOrder order = Order(other.process());
  order.uid = kNobody + 1;
  order.kill_grace = base::Duration(20);
  launcher_->Start(order);
  ASSERT_TRUE(launcher_->AdoptLease(kTask, other.process()));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  launcher_->Stop(kTask, 1);
  const ShimEvent ended = Next();
  EXPECT_EQ(ended.kind, ShimEventKind::kExited);
  EXPECT_TRUE(ended.untold);
  EXPECT_TRUE(Alive(other.process())) << "it belongs to another user";
  EXPECT_THAT(launcher_->Leases(), IsEmpty());
}

// Imitates su at its password prompt: the user may signal it, but root owns /proc/PID.
TEST_F(LeaseLauncherTest, EndsAProcessWithAnotherEffectiveUser) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root";
  Bystander su(kNobody, /*effective=*/0);
  LaunchOrder order = Order(su.process());
  order.uid = kNobody;
  launcher_->Start(order);
  ASSERT_TRUE(launcher_->AdoptLease(kTask, su.process()));
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(WTERMSIG(su.End(0)), SIGTERM);
}

TEST_F(LeaseLauncherTest, RefusesLeasesForInitAndForTheDaemonAndItsAncestors) {
  Stranger daemon({"sh", "-c", "sleep 10000 & wait"});
  options_.daemon = daemon.process().process.pid;
  Restart();
  EXPECT_THAT(launcher_->MayHaveLease(1).error().message,
              HasSubstr("the init process of this machine"));
  EXPECT_EQ(launcher_->MayHaveLease(options_.daemon).error().code, ErrorCode::kConflict);
  EXPECT_THAT(launcher_->MayHaveLease(::getpid()).error().message, HasSubstr("ancestor of carmad"));
  const auto has_child = [&] { return !Descendants(options_.daemon).empty(); };
  for (int i = 0; i < 6000 && !has_child(); ++i) ::poll(nullptr, 0, 10);
  ASSERT_TRUE(has_child());
  const pid_t served = Descendants(options_.daemon).front().id.pid;
  EXPECT_THAT(launcher_->MayHaveLease(served).error().message, HasSubstr("belongs to carmad"));
  Stranger stranger;
  EXPECT_TRUE(launcher_->MayHaveLease(stranger.process().process.pid));
  launcher_->Start(Order(stranger.process()));
  EXPECT_EQ(launcher_->AdoptLease(kTask, daemon.process()).error().code, ErrorCode::kConflict);
  ::kill(served, SIGKILL);
}

// The database of an older daemon may contain such a lease.
TEST_F(LeaseLauncherTest, AnOldLeaseForAProcessAboveTheDaemonSignalsNothing) {
  Stranger above({"sh", "-c", "sleep 10000 & wait"});
  const pid_t shell = above.process().process.pid;
  for (int i = 0; i < 6000 && Descendants(shell).empty(); ++i) ::poll(nullptr, 0, 10);
  const base::ProcessId daemon = Descendants(shell).at(0).id;
  launcher_->Start(Order(above.process()));
  ASSERT_TRUE(launcher_->AdoptLease(kTask, above.process()));
  options_.daemon = daemon.pid;
  Restart();
  launcher_->Adopt(Known(true));
  launcher_->Stop(kTask, 1);
  EXPECT_TRUE(Alive(LeaseProcess{daemon, above.process().boot_id}));
  EXPECT_EQ(WTERMSIG(above.End(SIGINT)), SIGINT) << "no other signal came before";
  ::kill(daemon.pid, SIGKILL);
}

TEST_F(LeaseLauncherTest, AWaitingNameCountsAsStartedAfterAWhile) {
  options_.adoption_limit = std::chrono::milliseconds(50);
  Restart();
  Waiter waiter("exec sleep 10000");
  launcher_->Start(Order(waiter.process()));
  ASSERT_TRUE(launcher_->AdoptLease(kTask, waiter.process()));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted) << "limits apply from now on";
}

TEST_F(LeaseLauncherTest, AStoppedProcessWaitsAgainWithoutGpus) {
  Stranger stranger;
  stranger.Stop();
  launcher_->Start(Order(stranger.process()));
  const ShimEvent back = Next();
  EXPECT_EQ(back.kind, ShimEventKind::kLaunchFailed);
  EXPECT_TRUE(back.waits);
  EXPECT_THAT(launcher_->Leases(), ElementsAre(kTask)) << "its exit is still noticed";
  ::kill(stranger.process().process.pid, SIGCONT);
  LaunchOrder again = Order(stranger.process());
  again.attempt = 2;
  launcher_->Start(again);
  EXPECT_TRUE(launcher_->AdoptLease(kTask, stranger.process()));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
}

TEST_F(LeaseLauncherTest, AStoppedProcessThatContinuesAtItsGrantAdoptsIt) {
  Stranger stranger;
  stranger.Stop();
  launcher_->Start(Order(stranger.process()));
  stranger.GoOn();
  // The timer for a grant to a stopped process expires immediately.
  pollfd ready{launcher_->PollFd(), POLLIN, 0};
  ::poll(&ready, 1, 60'000);
  Poll();
  EXPECT_THAT(events_, IsEmpty());
  EXPECT_TRUE(launcher_->AdoptLease(kTask, stranger.process()));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
}

// Slurm suspends a job by stopping its processes with signals or by freezing its cgroup.
TEST_F(LeaseLauncherTest, AStepThatDoesNotAdoptItsGrantWaitsAgain) {
  options_.adoption_limit = std::chrono::milliseconds(20);
  Restart();
  Stranger keeper;
  LaunchOrder order = Order(keeper.process());
  order.spec.lease_key = TextOf(LeaseKey{.cluster = "bed", .job = 12, .step = "batch"});
  launcher_->Start(order);
  EXPECT_TRUE(Next().waits);
  EXPECT_EQ(launcher_->LeasesOfJob(12).size(), 1U);
  EXPECT_FALSE(launcher_->Granted(kTask));
}

TEST_F(LeaseLauncherTest, AWaiterHasStartedWhenItsNameChanges) {
  Waiter waiter("exec sleep 10000");
  launcher_->Start(Order(waiter.process()));
  ASSERT_TRUE(launcher_->AdoptLease(kTask, waiter.process()));
  EXPECT_TRUE(launcher_->Adopted(kTask));
  Poll();
  EXPECT_THAT(events_, IsEmpty()) << "it is still waiting";
  Restart();
  launcher_->Adopt(Known(false));
  Poll();
  EXPECT_THAT(events_, IsEmpty()) << "under a new daemon too";
  waiter.GoOn();
  const ShimEvent started = Next();
  EXPECT_EQ(started.kind, ShimEventKind::kStarted);
  EXPECT_EQ(started.process, waiter.process().process);
  waiter.End();
  EXPECT_EQ(Next().kind, ShimEventKind::kExited);
}

TEST_F(LeaseLauncherTest, AWaiterThatEndsBeforeItsStartHasNotRun) {
  Waiter waiter("exec sleep 10000");
  launcher_->Start(Order(waiter.process()));
  ASSERT_TRUE(launcher_->AdoptLease(kTask, waiter.process()));
  waiter.End();
  const ShimEvent failed = Next();
  EXPECT_EQ(failed.kind, ShimEventKind::kLaunchFailed);
  EXPECT_FALSE(failed.retryable);
  EXPECT_THAT(failed.text, HasSubstr("before carmad saw it start"));
  EXPECT_THAT(launcher_->Leases(), IsEmpty());
}

TEST_F(LeaseLauncherTest, TheKeeperReportsWhetherAProcessRan) {
  for (const LeaseEnd& end : {LeaseEnd{.exit_code = 3}, LeaseEnd{.signal = SIGKILL}}) {
    Stranger keeper;
    Waiter waiter("exit 3");
    LaunchOrder order = Order(*FindLeaseProcess(::getpid()));
    order.spec.lease_key = TextOf(LeaseKey{.cluster = "bed", .job = 12, .step = "batch"});
    std::filesystem::remove_all(folder_ + "/attempts");
    launcher_->Start(order);
    ASSERT_TRUE(launcher_->AdoptLease(kTask, waiter.process()));
    waiter.End();
    ASSERT_TRUE(launcher_->EndLease(kTask, end));
    EXPECT_EQ(Next().kind,
              end.signal == 0 ? ShimEventKind::kStarted : ShimEventKind::kLaunchFailed);
    if (end.signal == 0) {
      EXPECT_EQ(Next().exit_code, 3);
    }
  }
}

TEST_F(LeaseLauncherTest, ReadsItsExitStatusFromTheKernel) {
  Waiter waiter("exec sh -c 'exit 5'");
  launcher_->Start(Order(waiter.process()));
  ASSERT_TRUE(launcher_->AdoptLease(kTask, waiter.process()));
  waiter.GoOn();
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  const ShimEvent exited = Next();  // the parent has not reaped the process yet
  EXPECT_EQ(exited.exit_code, 5);
  EXPECT_FALSE(exited.untold);
  EXPECT_EQ(WEXITSTATUS(waiter.End(0)), 5);
  Restart();  // before the end was stored
  launcher_->Adopt(Known(true));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  EXPECT_EQ(Next().exit_code, 5);

  Stranger gone;
  std::filesystem::remove_all(folder_ + "/attempts");
  launcher_->Start(Order(gone.process()));
  ASSERT_TRUE(launcher_->AdoptLease(kTask, gone.process()));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  Restart();
  gone.End();
  launcher_->Adopt(Known(true));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  EXPECT_TRUE(Next().untold) << "no daemon was watching";
}

TEST_F(LeaseLauncherTest, ReadsTheReportOfAKeeperThatFoundNoDaemon) {
  options_.ends_dir = folder_ + "/ends";
  Restart();
  Stranger keeper;
  LaunchOrder order = Order(keeper.process());
  order.spec.lease_key = TextOf(LeaseKey{.cluster = "bed", .job = 12, .step = "batch"});
  const auto leave = [&](pid_t by) {
    std::ofstream(options_.ends_dir + "/7")
        << "{\"exit_code\":1,\"signal\":0,\"stderr_tail\":\"CUDA out of memory\",\"pid\":" << by
        << "}";
  };
  launcher_->Start(order);
  ASSERT_TRUE(launcher_->AdoptLease(kTask, keeper.process()));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  leave(keeper.process().process.pid + 1);
  Restart();
  launcher_->Adopt(Known(true));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  Poll();
  EXPECT_THAT(events_, IsEmpty()) << "the report is not from its keeper";
  leave(keeper.process().process.pid);
  keeper.End();
  const ShimEvent exited = Next();
  EXPECT_EQ(exited.exit_code, 1);
  EXPECT_EQ(exited.stderr_tail, "CUDA out of memory");
  EXPECT_FALSE(std::filesystem::exists(options_.ends_dir + "/7"));
  Restart();  // before the end was stored
  launcher_->Adopt(Known(true));
  EXPECT_EQ(Next().kind, ShimEventKind::kStarted);
  EXPECT_EQ(Next().stderr_tail, "CUDA out of memory");
}

TEST_F(LeaseLauncherTest, PassesOnTasksThatAreNotLeases) {
  LaunchOrder order = Order({});
  order.spec.lease.reset();
  launcher_->Start(order);
  EXPECT_THAT(launcher_->Leases(), IsEmpty());
  EXPECT_EQ(others_->started.size(), 1U);
  others_->shims[4711] = order.id;
  EXPECT_EQ(launcher_->TaskOfShim({.pid = 4711}), order.id);
}

TEST(LeaseKey, ParsesBackFromItsText) {
  const LeaseKey key{"bed", 12, "batch", 1, 3};
  EXPECT_EQ(TextOf(key), "bed 12 batch 1 3");
  EXPECT_TRUE(base::NamesEveryMember<LeaseKey>());
  EXPECT_EQ(ParseLeaseKey(TextOf(key)), key);
  for (const char* text : {"", "bed 12 batch 1", "bed 0 batch 1 3", "bed x 0 1 3", "bed 1 0 -1 3"})
    EXPECT_FALSE(ParseLeaseKey(text)) << text;
}

TEST(LeaseProcess, ParsesBackFromItsText) {
  const LeaseProcess process{{4711, 88'213}, "0f6c-11"};
  EXPECT_EQ(TextOf(process), "4711 88213 0f6c-11");
  EXPECT_EQ(ParseLeaseProcess(TextOf(process)), process);
  for (const char* text : {"", "4711", "0 1 b", "-3 1 b", "4711 x b", "4711 1 b c"})
    EXPECT_FALSE(ParseLeaseProcess(text)) << text;
  EXPECT_FALSE(Alive(process));
  EXPECT_TRUE(Alive(*FindLeaseProcess(::getpid())));
}

}  // namespace
}  // namespace carma::task
