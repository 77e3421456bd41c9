// Tests that tasks continue when the daemon exits, and that attempts end correctly when the shim
// exits.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/rng.h"
#include "task/process/process_tree.h"
#include "task/shim/shim_fixture.h"
#include "task/shim/shim_spawn.h"

namespace carma::task {
namespace {

class ShimRestartTest : public ShimLauncherTest {};

TEST_F(ShimRestartTest, ARestartedDaemonFollowsARunningTask) {
  launcher_->Start(Order("echo up > $TELL; read x < $GO; exit $x"));
  const ShimEvent started = NextStarted();
  EXPECT_EQ(Told(), "up");
  Restart();
  launcher_->Adopt({kTask, 1, Dir()});
  const ShimEvent again = NextStarted();
  EXPECT_EQ(again.process, started.process);
  EXPECT_EQ(again.cgroup, started.cgroup);
  Go("6");
  EXPECT_EQ(NextExited().exit_code, 6);
}

TEST_F(ShimRestartTest, ARestartedDaemonCanStop) {
  launcher_->Start(Order("sleep 1000"));
  NextStarted();
  Restart();
  launcher_->Adopt({kTask, 1, Dir()});
  launcher_->Stop(kTask, 1);
  NextStarted();
  EXPECT_EQ(NextExited().signal, SIGTERM);
}

TEST_F(ShimRestartTest, ARestartedDaemonReportsEndsDuringItsAbsence) {
  launcher_->Start(Order("echo bye >&2; exit 8"));
  NextStarted();
  const base::ProcessId shim = ShimProcess();
  Restart();
  ASSERT_TRUE(Gone(shim));
  launcher_->Adopt({kTask, 1, Dir()});
  NextStarted();
  const ShimEvent exit = NextExited();
  EXPECT_EQ(exit.exit_code, 8);
  EXPECT_EQ(exit.stderr_tail, "bye\n");
}

TEST_F(ShimRestartTest, ARestartedDaemonReportsAFailedLaunch) {
  launcher_->Start(Order("true"));
  NextStarted();
  NextExited();
  LaunchOrder order = Order("");
  order.spec.command = {"no-such-cmd"};
  order.attempt = 2;
  order.attempt_dir = root_ + "/attempts/5/2";
  launcher_->Start(order);
  NextFailed();
  Restart();
  launcher_->Adopt({kTask, 2, order.attempt_dir});
  EXPECT_FALSE(NextFailed().retryable);
}

TEST_F(ShimRestartTest, AnAttemptWithoutFolderNeverBegan) {
  launcher_->Adopt({kTask, 1, Dir()});
  const ShimEvent event = NextFailed();
  EXPECT_TRUE(event.retryable);
  EXPECT_TRUE(event.interrupted) << "the daemon's exit is not the task's fault";
}

TEST_F(ShimRestartTest, AStartedAttemptWithoutFolderIsLostAndItsProcessesAreKilled) {
  launcher_->Start(
      Order("(setsid sh -c 'echo $$ > $TELL; exec sleep 1000' &) & wait; exec sleep 1000"));
  const ShimEvent started = NextStarted();
  const std::string orphan = Told();
  const base::ProcessId shim = ShimProcess();
  Restart();
  ASSERT_GT(std::filesystem::remove_all(root_ + "/attempts"), 0U);
  launcher_->Adopt({kTask, 1, Dir(), ::getuid(), true});
  EXPECT_TRUE(NextExited().lost);
  EXPECT_TRUE(Gone(shim));
  EXPECT_TRUE(Gone(started.process));
  EXPECT_TRUE(Gone(orphan));
}

TEST_F(ShimRestartTest, AStartedAttemptWithoutAnOwnerIsLost) {
  Run(Order("true"));
  Restart();
  for (const char* name : {kOwnerFile, kExitFile})
    ASSERT_EQ(::unlink((Dir() + "/" + name).c_str()), 0);
  launcher_->Adopt({kTask, 1, Dir(), ::getuid(), true});
  EXPECT_TRUE(NextExited().lost);
}

TEST_F(ShimRestartTest, AShimWithoutFolderIsFoundEvenIfItsStartWasMissed) {
  launcher_->Start(Order("echo up > $TELL; exec sleep 1000"));
  EXPECT_EQ(Told(), "up");
  const base::ProcessId shim = ShimProcess();
  Restart();
  ASSERT_GT(std::filesystem::remove_all(root_ + "/attempts"), 0U);
  launcher_->Adopt({kTask, 1, Dir(), ::getuid(), false});
  EXPECT_TRUE(NextExited().lost);
  EXPECT_TRUE(Gone(shim));
}

TEST_F(ShimRestartTest, ReportsTheExitAlthoughTheFolderIsGone) {
  launcher_->Start(Order("echo up > $TELL; read x < $GO; exit $x"));
  NextStarted();
  EXPECT_EQ(Told(), "up");
  ASSERT_GT(std::filesystem::remove_all(root_ + "/attempts"), 0U);
  Go("6");
  const ShimEvent exit = NextExited();
  EXPECT_EQ(exit.exit_code, 6);
  EXPECT_FALSE(exit.lost);
}

TEST_F(ShimRestartTest, AShimThatHangsIsKilledWithItsTask) {
  for (const bool adopted : {false, true}) {
    launcher_ = MakeShimLauncher({ShimPath(), FindCgroupBase(), base::Duration(100)}).value();
    LaunchOrder order =
        Order("(setsid sh -c 'echo $$ > $TELL; exec sleep 1000' &) & exec sleep 1000");
    order.attempt = adopted ? 2 : 1;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(order.attempt);
    launcher_->Start(order);
    const ShimEvent started = NextStarted();
    const std::string other = Told();
    const std::optional<base::ProcessStat> task = base::ReadProcessStat(started.process.pid);
    ASSERT_TRUE(task);
    if (adopted) {
      launcher_ = MakeShimLauncher({ShimPath(), FindCgroupBase(), base::Duration(100)}).value();
      launcher_->Adopt({kTask, order.attempt, order.attempt_dir, ::getuid(), true});
      NextStarted();
    }
    ASSERT_EQ(::kill(task->parent, SIGSTOP), 0);
    launcher_->Stop(kTask, order.attempt);
    EXPECT_TRUE(NextExited().lost);
    EXPECT_TRUE(Gone(started.process));
    EXPECT_TRUE(Gone(other));
  }
}

TEST_F(ShimRestartTest, ARunningTaskIsNotLostIfTheDiskHidesItsFolder) {
  launcher_->Start(Order("echo up > $TELL; read x < $GO; exit $x"));
  NextStarted();
  EXPECT_EQ(Told(), "up");
  Restart();
  const std::string owner = Dir() + "/" + kOwnerFile, aside = owner + ".aside";
  ASSERT_EQ(::rename(owner.c_str(), aside.c_str()), 0);
  ASSERT_EQ(::symlink(owner.c_str(), owner.c_str()), 0);  // fails with ELOOP, not ENOENT
  launcher_->Adopt({kTask, 1, Dir(), ::getuid(), true});
  ASSERT_EQ(::rename(aside.c_str(), owner.c_str()), 0);
  NextStarted();
  Go("6");
  EXPECT_EQ(NextExited().exit_code, 6);
}

TEST_F(ShimRestartTest, ATaskWithAProcessThatSurvivesAKillIsNotLost) {
  launcher_ = MakeShimLauncher({ShimPath(), FindCgroupBase(), base::Duration(100)}).value();
  launcher_->Start(Order("exec sleep 1000"));
  const pid_t task = NextStarted().process.pid;
  // A killed process does not exit before its tracer has noticed, as if a driver hung.
  constexpr std::intptr_t kStopAtExit = PTRACE_O_TRACEEXIT;
  if (::ptrace(PTRACE_SEIZE, task, nullptr, kStopAtExit) != 0) GTEST_SKIP() << "no ptrace()";
  launcher_->Stop(kTask, 1);
  // The launcher wakes up each time it kills the task.
  for (int wakes = 0; wakes < 3 && events_.empty(); ++wakes) {
    pollfd fd{launcher_->PollFd(), POLLIN, 0};
    ::poll(&fd, 1, kPatienceMs);
    launcher_->Poll([this](ShimEvent event) { events_.push_back(std::move(event)); });
  }
  ::waitpid(task, nullptr, __WALL);
  ::ptrace(PTRACE_DETACH, task, nullptr, nullptr);
  EXPECT_FALSE(NextExited().lost);
}

TEST_F(ShimRestartTest, AShimThatSurvivesAKillIsReportedOnce) {
  launcher_ = MakeShimLauncher({ShimPath(), FindCgroupBase(), base::Duration(100)}).value();
  launcher_->Start(Order("exec sleep 1000"));
  NextStarted();
  const pid_t shim = ShimProcess().pid;
  // The tracer keeps the shim from running and from exiting, as if a disk hung.
  constexpr std::intptr_t kStopAtExit = PTRACE_O_TRACEEXIT;
  if (::ptrace(PTRACE_SEIZE, shim, nullptr, kStopAtExit) != 0) GTEST_SKIP() << "no ptrace()";
  ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, shim, nullptr, nullptr), 0);
  ASSERT_EQ(::waitpid(shim, nullptr, __WALL), shim);
  launcher_->Stop(kTask, 1);
  ::testing::internal::CaptureStderr();
  // The launcher wakes up when it kills the task, and then each time it kills the shim.
  for (int wakes = 0; wakes < 3 && events_.empty(); ++wakes) {
    pollfd fd{launcher_->PollFd(), POLLIN, 0};
    ::poll(&fd, 1, kPatienceMs);
    launcher_->Poll([this](ShimEvent event) { events_.push_back(std::move(event)); });
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("shim_hangs"), std::string::npos);
  EXPECT_EQ(log.find("shim_hangs"), log.rfind("shim_hangs"));
  ::waitpid(shim, nullptr, __WALL);
  ::ptrace(PTRACE_DETACH, shim, nullptr, nullptr);
  EXPECT_TRUE(NextExited().lost);
}

TEST_F(ShimRestartTest, AStopReachesATaskThoughItsFolderCannotBeRead) {
  for (const char* name : {kExitFile, kOwnerFile}) {
    LaunchOrder order = Order("exec sleep 1000");
    order.attempt = name == kExitFile ? 1 : 2;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(order.attempt);
    order.kill_grace = base::Duration(3'600'000);
    launcher_->Start(order);
    NextStarted();
    Restart();
    const std::string file = order.attempt_dir + "/" + name, aside = file + ".aside";
    if (name == kOwnerFile) ::rename(file.c_str(), aside.c_str());
    ASSERT_EQ(::mknod(file.c_str(), S_IFSOCK | 0600, 0), 0);  // fails to open, as on a bad disk
    launcher_->Adopt({kTask, order.attempt, order.attempt_dir, ::getuid(), true});
    launcher_->Stop(kTask, order.attempt);
    if (name == kOwnerFile) ::rename(aside.c_str(), file.c_str());
    NextStarted();
    EXPECT_EQ(NextExited().signal, SIGTERM) << name;
  }
}

TEST(Descendants, AnUnknownProcessHasNone) {
  EXPECT_TRUE(Descendants(0).empty()) << "the parent of all processes";
}

TEST_F(ShimRestartTest, ARunningTaskIsNotLostWithoutDescriptors) {
  launcher_->Start(Order("echo up > $TELL; read x < $GO; exit $x"));
  NextStarted();
  EXPECT_EQ(Told(), "up");
  Restart();
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{1, usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  launcher_->Adopt({kTask, 1, Dir(), ::getuid(), true});
  std::vector<ShimEvent> told;
  launcher_->Poll([&](ShimEvent event) { told.push_back(std::move(event)); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_TRUE(told.empty()) << told.front().text;
  NextStarted();
  Go("6");
  EXPECT_EQ(NextExited().exit_code, 6);
}

TEST_F(ShimRestartTest, ALateShimDoesNotRunAnAbandonedAttempt) {
  // Recreates what a daemon leaves behind if it dies before starting its shim: a folder with a
  // launch order.
  launcher_->Start(Order("echo ran >> " + root_ + "/ran"));
  NextStarted();
  NextExited();
  ASSERT_EQ(::unlink((root_ + "/ran").c_str()), 0);
  for (const char* name : {kOwnerFile, kStartedFile, kExitFile})
    ASSERT_EQ(::unlink((Dir() + "/" + name).c_str()), 0);
  Restart();
  launcher_->Adopt({kTask, 1, Dir()});
  EXPECT_TRUE(NextFailed().retryable);
  Result<SpawnedShim> late = SpawnShim(ShimPath(), Dir());
  ASSERT_TRUE(late);
  int status = 0;
  ASSERT_EQ(::waitpid(late->process.pid, &status, 0), late->process.pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kShimNotOwner);
  EXPECT_FALSE(base::Exists(root_ + "/ran"));
  // A second restart gives the same result instead of "lost".
  Restart();
  launcher_->Adopt({kTask, 1, Dir()});
  EXPECT_TRUE(NextFailed().retryable);
}

TEST_F(ShimRestartTest, AnAttemptIsNotStartedTwice) {
  Run(Order("echo x >> " + root_ + "/ran"));
  launcher_->Start(Order("echo x >> " + root_ + "/ran"));
  const ShimEvent again = NextFailed();
  EXPECT_TRUE(again.retryable);
  EXPECT_FALSE(again.exhausted) << "the machine is not at fault";
  EXPECT_EQ(base::ReadFile(root_ + "/ran", 100).value(), "x\n");
}

TEST_F(ShimRestartTest, KillingAShimKillsItsTaskAndLosesTheAttempt) {
  launcher_->Start(
      Order("(setsid sh -c 'echo $$ > $TELL; exec sleep 1000' &) & wait; "
            "exec sleep 1000"));
  const ShimEvent started = NextStarted();
  const std::string orphan = Told();
  ASSERT_EQ(::kill(ShimProcess().pid, SIGKILL), 0);
  const ShimEvent exit = NextExited();
  EXPECT_TRUE(exit.lost);
  EXPECT_TRUE(Gone(started.process));
  EXPECT_TRUE(Gone(orphan));
  launcher_->Forget(kTask, 1, Dir());
  EXPECT_FALSE(base::Exists(Dir()));
}

TEST_F(ShimRestartTest, FindsRemainingProcessesWithoutCgroups) {
  launcher_ = MakeShimLauncher({ShimPath(), {}}).value();
  // One process leaves the session, and another clears its environment.
  launcher_->Start(
      Order("(setsid sh -c 'echo $$ > $TELL; exec sleep 1000' &) & wait; "
            "env -i sh -c \"echo \\$\\$ > $TELL; exec sleep 1000\" & sleep 1000"));
  const ShimEvent started = NextStarted();
  const std::string one = Told(), other = Told();
  ASSERT_EQ(::kill(ShimProcess().pid, SIGKILL), 0);
  EXPECT_TRUE(NextExited().lost);
  EXPECT_TRUE(Gone(started.process));
  EXPECT_TRUE(Gone(one));
  EXPECT_TRUE(Gone(other));
}

TEST_F(ShimRestartTest, AShimKilledWhileTheDaemonWasAwayIsLost) {
  launcher_->Start(Order("exec sleep 1000"));
  const ShimEvent started = NextStarted();
  const base::ProcessId shim = ShimProcess();
  Restart();
  ASSERT_EQ(::kill(shim.pid, SIGKILL), 0);
  ASSERT_TRUE(Gone(shim));
  launcher_->Adopt({kTask, 1, Dir()});
  NextStarted();
  const ShimEvent exit = NextExited();
  EXPECT_TRUE(exit.lost);
  EXPECT_TRUE(exit.ended_before_adoption);
  EXPECT_TRUE(Gone(started.process));
}

TEST_F(ShimRestartTest, AnEndBeforeARebootKeepsItsTime) {
  const ShimEvent before = Run(Order("true"));
  const std::string owner_file = Dir() + "/" + kOwnerFile, exit_file = Dir() + "/" + kExitFile;
  ShimOwner owner = ParseShimOwner(base::ReadFile(owner_file, kMaxOwnerBytes).value()).value();
  owner.boot_id = "another";
  ASSERT_TRUE(base::WriteFileAtomic(owner_file, ToText(owner)));
  ShimReport report =
      ParseShimReport(base::ReadFile(exit_file, kReportReserveBytes).value()).value();
  report.ended_boot_ns += std::int64_t{10} * 86'400 * 1'000'000'000;  // that boot was longer
  ASSERT_TRUE(base::WriteFileAtomic(exit_file, ToText(report)));
  Restart();
  launcher_->Adopt({kTask, 1, Dir()});
  NextStarted();
  EXPECT_NEAR(static_cast<double>(NextExited().ended_boot_ns),
              static_cast<double>(before.ended_boot_ns), 5e9);
}

TEST_F(ShimRestartTest, AfterARebootTheAttemptIsLostAndNothingIsKilled) {
  launcher_->Start(Order("exec sleep 1000"));
  const ShimEvent started = NextStarted();
  Restart();
  ShimOwner owner =
      ParseShimOwner(base::ReadFile(Dir() + "/" + kOwnerFile, kMaxOwnerBytes).value()).value();
  const base::ProcessId shim = owner.process;
  owner.boot_id = "another";
  ASSERT_TRUE(base::WriteFileAtomic(Dir() + "/" + kOwnerFile, ToText(owner)));
  launcher_->Adopt({kTask, 1, Dir()});
  NextStarted();
  EXPECT_TRUE(NextExited().lost);
  EXPECT_TRUE(base::Alive(started.process)) << "another process has this pid now";
  ::kill(shim.pid, SIGTERM);
  EXPECT_TRUE(Gone(shim));
}

TEST_F(ShimRestartTest, ATornOwnerOrReportCountsAsLost) {
  Run(Order("true"));
  for (const char* torn : {kExitFile, kOwnerFile}) {
    ASSERT_EQ(::truncate((Dir() + "/" + torn).c_str(), 5), 0);
    Restart();
    launcher_->Adopt({kTask, 1, Dir()});
    NextStarted();
    EXPECT_TRUE(NextExited().lost) << torn;
  }
}

TEST_F(ShimRestartTest, AShutdownCountsAsLostNotAsFailed) {
  launcher_->Start(Order("exec sleep 1000"));
  NextStarted();
  ASSERT_EQ(::kill(ShimProcess().pid, SIGTERM), 0);  // as in a shutdown
  const ShimEvent exit = NextExited();
  EXPECT_TRUE(exit.lost);
  EXPECT_EQ(exit.signal, SIGTERM);
}

// When a cluster stops a job, it signals each process separately. In this test, the shim comes
// last.
TEST_F(ShimRestartTest, AShutdownThatReachesTheTaskFirstCountsAsLost) {
  launcher_->Start(Order("exec sleep 1000"));
  const ShimEvent started = NextStarted();
  const base::ProcessId shim = ShimProcess();
  ASSERT_EQ(::kill(started.process.pid, SIGTERM), 0);
  ASSERT_TRUE(Gone(started.process));
  ASSERT_EQ(::kill(shim.pid, SIGTERM), 0);
  EXPECT_TRUE(NextExited().lost);
}

TEST_F(ShimRestartTest, ATaskThatEndsItselfByTheSameSignalHasFailed) {
  launcher_->Start(Order("kill -TERM $$"));
  NextStarted();
  const ShimEvent exit = NextExited();
  EXPECT_FALSE(exit.lost);
  EXPECT_EQ(exit.signal, SIGTERM);
}

// Kills the shim or the daemon with kill -9 at random moments. Each attempt must end in exactly one
// way. Its task must run at most once, and exactly once if an exit code is reported.
TEST_F(ShimRestartTest, KillsAtAnyMomentEndEveryAttemptExactlyOnce) {
  base::Rng rng(20'260'301);
  for (int attempt = 1; attempt <= 150; ++attempt) {
    const std::string mark = root_ + "/ran." + std::to_string(attempt);
    LaunchOrder order = Order("echo x >> " + mark + "; exit 3");
    order.attempt = attempt;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(attempt);
    launcher_->Start(order);
    // There is no event to wait for, so spin for a random time of less than 6 ms.
    const auto moment = Clock::now() + std::chrono::microseconds(rng.Below(6000));
    while (Clock::now() < moment) {
    }
    const bool kill_shim = rng.Below(2) == 0;
    if (kill_shim) {
      for (const base::ProcessStat& child : Descendants(::getpid())) {
        if (child.command == "carma-shim" && child.parent == ::getpid())
          ::kill(child.id.pid, SIGKILL);
      }
    }
    if (rng.Below(2) == 0) {
      Restart();
      launcher_->Adopt({kTask, attempt, order.attempt_dir});
    }
    ShimEvent last = Next();
    if (last.kind == ShimEventKind::kStarted) last = Next();
    ASSERT_NE(last.kind, ShimEventKind::kStarted) << "attempt " << attempt;
    const std::string ran = base::ReadFile(mark, 100).value_or("");
    if (last.kind == ShimEventKind::kLaunchFailed) {
      EXPECT_TRUE(last.retryable) << last.text;
      EXPECT_EQ(ran, "") << "attempt " << attempt << ": reported as never begun";
    } else if (last.lost) {
      EXPECT_TRUE(ran.empty() || ran == "x\n") << "attempt " << attempt << ": " << ran;
    } else {
      EXPECT_EQ(last.exit_code, 3) << "attempt " << attempt;
      EXPECT_EQ(ran, "x\n") << "attempt " << attempt;
    }
    EXPECT_TRUE(kill_shim || !last.lost) << "attempt " << attempt;
    // Another restart must report the same result.
    Restart();
    launcher_->Adopt({kTask, attempt, order.attempt_dir});
    ShimEvent again = Next();
    if (again.kind == ShimEventKind::kStarted) again = Next();
    EXPECT_EQ(again.kind, last.kind) << "attempt " << attempt;
    EXPECT_EQ(again.lost, last.lost) << "attempt " << attempt;
    EXPECT_EQ(again.exit_code, last.exit_code) << "attempt " << attempt;
    EXPECT_TRUE(events_.empty());
    launcher_->Forget(kTask, attempt, order.attempt_dir);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

}  // namespace
}  // namespace carma::task
