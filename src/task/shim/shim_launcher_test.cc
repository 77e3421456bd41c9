// Tests launching, signalling and stopping tasks with real shims and processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "base/user.h"
#include "task/process/cgroup.h"
#include "task/shim/attempt_folder.h"
#include "task/shim/shim_fixture.h"

namespace carma::task {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST_F(ShimLauncherTest, ReportsExitCodesAndSignals) {
  struct Case {
    const char* name;
    const char* script;
    int exit_code;
    int signal;
  };
  const Case cases[] = {
      {"success", "exit 0", 0, 0},
      {"a failure", "exit 3", 3, 0},
      {"the largest code", "exit 255", 255, 0},
      {"a signal from itself", "kill -SEGV $$", 0, SIGSEGV},
      {"killed", "kill -KILL $$", 0, SIGKILL},
  };
  int attempt = 0;
  for (const Case& c : cases) {
    LaunchOrder order = Order(c.script);
    order.attempt = ++attempt;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(attempt);
    const ShimEvent exit = Run(order);
    EXPECT_EQ(exit.exit_code, c.exit_code) << c.name;
    EXPECT_EQ(exit.signal, c.signal) << c.name;
    EXPECT_FALSE(exit.lost) << c.name;
    EXPECT_FALSE(exit.host_oom) << c.name;
    EXPECT_EQ(exit.id, kTask);
    EXPECT_EQ(exit.attempt, attempt);
  }
}

TEST_F(ShimLauncherTest, ReportsOutputLostOnAFullDisk) {
  LaunchOrder order = Order("echo 1234567");
  order.spec.stdout_path = "/dev/full";
  const ShimEvent exit = Run(order);
  EXPECT_EQ(exit.exit_code, 0);
  EXPECT_EQ(exit.text, "8 bytes of its output could not be written: No space left on device");
}

TEST_F(ShimLauncherTest, KnowsTheTaskOfAShimThatHasNotReported) {
  launcher_->Start(Order("echo $PPID > $TELL; read word < $GO"));
  const std::optional<base::ProcessStat> shim = base::ReadProcessStat(std::stoi(Told()));
  ASSERT_TRUE(shim);
  // The launcher has not been polled yet.
  EXPECT_EQ(launcher_->TaskOfShim(shim->id), kTask);
  EXPECT_EQ(launcher_->TaskOfShim({shim->id.pid, shim->id.start_ticks + 1}), std::nullopt);
  NextStarted();
  Go();
  NextExited();
}

TEST_F(ShimLauncherTest, ReportsTheProcessAndItsGroup) {
  launcher_->Start(Order("echo $$ > $TELL; exec cat $GO"));
  const ShimEvent started = NextStarted();
  EXPECT_EQ(Told(), std::to_string(started.process.pid));
  EXPECT_TRUE(base::Alive(started.process));
  const auto stat = base::ReadProcessStat(started.process.pid);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->session, started.process.pid);
  EXPECT_EQ(stat->group, started.process.pid);
  if (!FindCgroupBase().path.empty()) {
    const std::string groups =
        base::ReadFile("/proc/" + std::to_string(started.process.pid) + "/cgroup", 1 << 16).value();
    EXPECT_THAT(groups, HasSubstr("0::" + started.cgroup + "\n"));
  }
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(NextExited().signal, SIGTERM);
  if (!started.cgroup.empty()) {
    EXPECT_FALSE(base::Exists(FindCgroupBase().root + started.cgroup));
  }
}

TEST_F(ShimLauncherTest, WritesOutputToItsFilesAndReportsTheTail) {
  const ShimEvent exit = Run(Order("echo out; echo err >&2; printf 'a\\000\\377' >&2; exit 1"));
  EXPECT_EQ(Out(), "out\n");
  const std::string expect("err\na\0\xff", 7);
  EXPECT_EQ(Err(), expect);
  EXPECT_EQ(exit.stderr_tail, expect);
}

TEST_F(ShimLauncherTest, OneFileForBothStreams) {
  LaunchOrder order = Order("echo out; echo err >&2");
  order.spec.stderr_path.clear();
  const ShimEvent exit = Run(order);
  EXPECT_THAT(Out(), HasSubstr("out\n"));
  EXPECT_THAT(Out(), HasSubstr("err\n"));
  EXPECT_EQ(exit.stderr_tail, "err\n");
}

TEST_F(ShimLauncherTest, TheTaskStartsInACleanEnvironment) {
  LaunchOrder order = Order(
      "pwd; umask; echo $CUDA_VISIBLE_DEVICES $CARMA_TASK_ID; ls /proc/self/fd; "
      "readlink /proc/$$/fd/0; env | wc -l; "
      // The shell must read its own status: it blocks signals for a moment when it forks, and
      // another process might read the status just then.
      "while read -r line; do case $line in SigBlk*|SigIgn*|NoNewPrivs*) echo \"$line\";; esac; "
      "done < /proc/self/status");
  ::signal(SIGUSR2, SIG_IGN);
  const ShimEvent exit = Run(order);
  ::signal(SIGUSR2, SIG_DFL);
  EXPECT_EQ(exit.exit_code, 0) << Err();
  const std::string text = Out();
  EXPECT_THAT(text, HasSubstr(root_ + "\n0022\nGPU-x 5\n0\n1\n2\n3\n/dev/null\n")) << "3: ls";
  EXPECT_THAT(text, HasSubstr("NoNewPrivs:\t1\n"));
  EXPECT_THAT(text, HasSubstr("SigBlk:\t0000000000000000\n"));
  // The C library reserves signals 32 and 33 and may ignore them in a process that it spawns.
  EXPECT_THAT(text, ContainsRegex("SigIgn:\t0000000[01][08]0000000\n"));
}

TEST_F(ShimLauncherTest, ReportsWhyAProgramCannotRun) {
  const auto write = [this](const std::string& name, std::string_view text, mode_t mode) {
    EXPECT_TRUE(base::WriteFileAtomic(root_ + "/" + name, text, mode));
  };
  write("plain", "no program\n", 0755);
  write("closed", "#!/bin/sh\n", 0644);
  write("orphan", "#!/no/such/interpreter\n", 0755);
  struct Case {
    const char* name;
    std::vector<std::string> command;
    std::string workdir;
    std::string stdout_path;
    std::optional<std::string> script;
    std::string expect;
  };
  const std::string out = root_ + "/out";
  const Case cases[] = {
      {"an unknown command", {"no-such-cmd"}, root_, out, {}, "command 'no-such-cmd' not found"},
      {"a missing program", {root_ + "/none"}, root_, out, {}, "none': No such file"},
      {"no program", {root_ + "/plain"}, root_, out, {}, "neither a program nor a script"},
      {"not executable", {root_ + "/closed"}, root_, out, {}, "closed': Permission denied"},
      {"its interpreter is missing", {root_ + "/orphan"}, root_, out, {}, "interpreter does not"},
      {"a missing folder", {"true"}, root_ + "/no", out, {}, "/no': No such file or directory"},
      {"output below a file", {"true"}, root_, root_ + "/plain/out", {}, "/plain/out': Not a dir"},
      {"output onto a folder", {"true"}, root_, root_, {}, "': Is a directory"},
      {"a script without #!", {}, root_, out, "echo\n", "this is not a batch script"},
      {"a script with DOS line endings", {}, root_, out, "#!/bin/sh\r\n", "DOS line endings"},
      {"a script's interpreter is missing", {}, root_, out, "#!/bin/none\n", "/bin/none': No such"},
      {"a relative working directory", {"true"}, "here", out, {}, "/workdir: expected an absolute"},
  };
  int attempt = 0;
  for (const Case& c : cases) {
    LaunchOrder order = Order("");
    order.attempt = ++attempt;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(attempt);
    order.spec.command = c.command;
    order.spec.script = c.script;
    order.spec.workdir = c.workdir;
    order.spec.stdout_path = c.stdout_path;
    launcher_->Start(order);
    const ShimEvent failed = NextFailed();
    EXPECT_THAT(failed.text, HasSubstr(c.expect)) << c.name;
    EXPECT_FALSE(failed.retryable) << c.name;
  }
}

TEST_F(ShimLauncherTest, DoesNotRecreateARemovedWorkingDirectory) {
  LaunchOrder order = Order("true");
  order.spec.workdir = root_ + "/gone";
  order.spec.stdout_path = root_ + "/gone/logs/out";
  launcher_->Start(order);
  EXPECT_THAT(NextFailed().text, HasSubstr("cannot enter the working directory '" + root_ +
                                           "/gone': No such file or directory"));
  EXPECT_FALSE(base::Exists(root_ + "/gone"));
}

TEST_F(ShimLauncherTest, FoldersForOutputAreMade) {
  LaunchOrder order = Order("echo up");
  order.spec.stdout_path = root_ + "/logs/today/out";
  EXPECT_EQ(Run(order).exit_code, 0);
  EXPECT_EQ(base::ReadFile(root_ + "/logs/today/out", 100), "up\n");
}

TEST_F(ShimLauncherTest, AFailureBeforeTheOrderIsReadIsTheMachinesFault) {
  struct Case {
    std::string shim, attempt_dir, text;
  };
  for (const auto& [shim, attempt_dir, text] :
       {Case{"/no/such/carma-shim", Dir(), "/no/such/carma-shim: No such file"},
        Case{ShimPath(), "/dev/null/5/1", "/dev/null"},
        Case{"/bin/false", Dir(), "its shim exited before the task started"}}) {
    launcher_ = MakeShimLauncher({shim, {}}).value();
    LaunchOrder order = Order("true");
    order.attempt_dir = attempt_dir;
    launcher_->Start(order);
    const ShimEvent failed = NextFailed();
    EXPECT_TRUE(failed.retryable) << text;
    EXPECT_TRUE(failed.exhausted) << text;
    EXPECT_THAT(failed.text, HasSubstr(text));
  }
}

TEST_F(ShimLauncherTest, ABatchScriptRunsByItsInterpreterWithItsArguments) {
  LaunchOrder order = Order("");
  order.spec.command.clear();
  order.spec.script =
      "#!/bin/sh -e\necho \"$1|$2\"\n[ -r \"$0\" ] && echo readable\nfalse\necho no\n";
  order.spec.script_args = {"two words", "$HOME"};
  EXPECT_EQ(Run(order).exit_code, 1);
  EXPECT_EQ(Out(), "two words|$HOME\nreadable\n");
}

TEST_F(ShimLauncherTest, EntersACondaEnvironmentOrReportsThatItIsMissing) {
  ASSERT_TRUE(base::MakeDirs(root_ + "/home/miniconda3/envs/torch/bin"));
  LaunchOrder order = Order("echo $PATH; echo $CONDA_DEFAULT_ENV");
  order.spec.environment["HOME"] = root_ + "/home";
  order.spec.conda_env = "torch";
  Run(order);
  EXPECT_THAT(Out(), HasSubstr(root_ + "/home/miniconda3/envs/torch/bin:/usr/local/bin"));
  order.attempt = 2;
  order.attempt_dir = root_ + "/attempts/5/2";
  order.spec.conda_env = "jax";
  launcher_->Start(order);
  const ShimEvent failed = NextFailed();
  EXPECT_FALSE(failed.retryable);
  EXPECT_THAT(failed.text, HasSubstr(root_ + "/home/miniconda3/envs/jax"));
}

TEST_F(ShimLauncherTest, ALaterAttemptAppendsToItsOutput) {
  Run(Order("echo one"));
  LaunchOrder order = Order("echo two");
  order.attempt = 2;
  order.attempt_dir = root_ + "/attempts/5/2";
  Run(order);
  EXPECT_EQ(Out(), "one\ntwo\n");
}

TEST_F(ShimLauncherTest, ATaskThatHandlesTheStopKeepsItsOwnExitCode) {
  // `wait` returns at once even if the signal arrives just before it; `read` would not. The trap
  // must kill the child, because the shim waits for all processes of the task.
  LaunchOrder order =
      Order("sleep 1000 & trap 'kill $!; echo saved; exit 7' TERM; echo up > $TELL; wait");
  order.kill_grace = base::Duration(kPatienceMs);
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "up");
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(NextExited().exit_code, 7);
  EXPECT_EQ(Out(), "saved\n");
}

TEST_F(ShimLauncherTest, AStopRightAfterTheStartIsNotLost) {
  LaunchOrder order = Order("while :; do sleep 1000; done");
  order.kill_grace = base::Duration(kPatienceMs);
  launcher_->Start(order);
  launcher_->Stop(kTask, 1);
  NextStarted();
  EXPECT_EQ(NextExited().signal, SIGTERM);
}

TEST_F(ShimLauncherTest, TheSignalBeforeTheLimitGoesToTheShellOrToItsPrograms) {
  for (const bool main_only : {true, false}) {
    LaunchOrder order = Order("");
    order.id = core::TaskId{main_only ? 6U : 7U};
    order.attempt_dir = root_ + (main_only ? "/attempts/6/1" : "/attempts/7/1");
    order.spec.command.clear();
    order.spec.script =
        "#!/bin/sh\ntrap 'echo shell > $TELL; exit 0' USR1\n"
        "sh -c 'sleep 1000 & trap \"echo program > $TELL; kill $!\" USR1; echo ready > $TELL\n"
        "wait' &\nwait\n";
    order.spec.signal = "USR1";
    order.spec.signal_main = main_only;
    const core::TaskId id = order.id;
    launcher_->Start(std::move(order));
    NextStarted();
    EXPECT_EQ(Told(), "ready");
    launcher_->Warn(id, 1);
    EXPECT_EQ(Told(), main_only ? "shell" : "program");
    EXPECT_EQ(NextExited().exit_code, 0);
  }
}

// In `python train.py | tee log`, killing tee would also end the training before it saves.
TEST_F(ShimLauncherTest, TheSignalBeforeTheLimitSparesProgramsWithoutAHandler) {
  LaunchOrder order = Order("");
  order.spec.command.clear();
  order.spec.script =
      "#!/bin/bash\n"
      "bash -c 'sleep 1000 & trap \"kill $!; echo saved; exit 7\" USR1; echo ready > $TELL; wait'"
      " | cat\nexit ${PIPESTATUS[0]}${PIPESTATUS[1]}\n";
  order.spec.signal = "USR1";
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "ready");
  launcher_->Warn(kTask, 1);
  EXPECT_EQ(NextExited().exit_code, 70);
  EXPECT_EQ(Out(), "saved\n");
}

TEST_F(ShimLauncherTest, ASignalThatNothingHandlesIsReported) {
  LaunchOrder order = Order("echo up > $TELL; read word < $GO; exit 3");
  order.spec.signal = "USR1";
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "up");
  launcher_->Warn(kTask, 1);
  while (Err().find("no process of this task handles USR1") == std::string::npos) ::sched_yield();
  Go();
  EXPECT_EQ(NextExited().exit_code, 3);
}

TEST_F(ShimLauncherTest, ASignalThatOnlyTheShellHandlesIsReportedWithTheRemedy) {
  LaunchOrder order = Order("");
  order.spec.command.clear();
  order.spec.script =
      "#!/bin/sh\ntrap 'echo shell' USR1\necho up > $TELL; read word < $GO; exit 3\n";
  order.spec.signal = "USR1";
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "up");
  launcher_->Warn(kTask, 1);
  const std::string remedy =
      "only the script's shell handles USR1; use --signal B:USR1@TIME to send it there";
  while (Err().find(remedy) == std::string::npos) ::sched_yield();
  Go();
  EXPECT_EQ(NextExited().exit_code, 3);
  EXPECT_EQ(Out(), "");
}

TEST_F(ShimLauncherTest, GpuMemoryLimitsCanBeChangedAndAreRemovedInTheEnd) {
  if (FindCgroupBase().path.empty()) GTEST_SKIP() << FindCgroupBase().reason;
  const std::string said = root_ + "/said";
  LaunchOrder order = Order("echo up > $TELL; read x < $GO");
  order.limiter = {"/bin/sh", "-c", "shift; echo \"$@\" >> " + said, "sh"};
  order.memory_limits = {"GPU-1", "100", "200"};
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "up");
  EXPECT_TRUE(launcher_->LimitMemory(kTask, 1, {"GPU-1", "50", "150"}));
  while (base::ReadFile(said, 1'000) != "GPU-1 100 200\nGPU-1 50 150\n") ::sched_yield();
  Go();
  EXPECT_EQ(NextExited().exit_code, 0);
  EXPECT_EQ(base::ReadFile(said, 1'000), "GPU-1 100 200\nGPU-1 50 150\nGPU-1 0 0\n");
}

TEST_F(ShimLauncherTest, AsksAProcessWithAHandlerToSave) {
  LaunchOrder order = Order(
      "sleep 1000 & trap 'echo kept > $CARMA_CHECKPOINT_DIR/state; cat "
      "$CARMA_ATTEMPT_DIR/leaves_by_ms; kill $!; exit 85' USR1; "
      "echo up > $TELL; wait");
  order.checkpoint_signal = "USR1";
  order.saves = true;
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "up");
  // An earlier carmad was killed before it sent the signal.
  ASSERT_TRUE(StateDeadline(Dir(), base::FromMs(1'700'000'000'000), /*asked=*/false));
  launcher_->AskToSave(kTask, 1, base::FromMs(1'700'000'000'000));
  EXPECT_EQ(NextExited().exit_code, 85);
  EXPECT_EQ(base::ReadFile(root_ + "/carma-5.ckpt/state", 100).value_or(""), "kept\n");
  EXPECT_THAT(Out(), testing::StartsWith("1700000000000")) << "when it is stopped";
}

TEST_F(ShimLauncherTest, ATaskThatMayStayAfterAllReadsNoDeadline) {
  LaunchOrder order =
      Order("echo up > $TELL; read word < $GO; cat $CARMA_ATTEMPT_DIR/leaves_by_ms");
  order.checkpoint_signal = "USR1";
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "up");
  launcher_->AskToSave(kTask, 1, base::FromMs(1'700'000'000'000));
  launcher_->DropDeadline(kTask, 1);
  Go();
  EXPECT_EQ(NextExited().exit_code, 0);
  EXPECT_EQ(Out(), "inf");
}

TEST_F(ShimLauncherTest, NeverUsesCheckpointsOfAnotherCarmad) {
  const std::string first_books = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  const std::string folder = root_ + "/carma-5-w9bwh7.ckpt";
  LaunchOrder order = Order("ls -A $CARMA_CHECKPOINT_DIR; echo kept > $CARMA_CHECKPOINT_DIR/state");
  order.saves = true;
  order.books = first_books;
  EXPECT_EQ(Run(order).exit_code, 0);
  EXPECT_EQ(Out(), "") << "new, and empty";
  EXPECT_THAT(base::ReadFile(folder + "/.carma-task", 1000).value_or(""),
              testing::AllOf(testing::HasSubstr("\"task\":5"), testing::HasSubstr(first_books)));

  launcher_->Forget(kTask, 1, Dir());
  EXPECT_EQ(Run(order).exit_code, 0);
  EXPECT_THAT(Out(), testing::HasSubstr("state")) << "its own";

  launcher_->Forget(kTask, 1, Dir());
  order.books = "1" + first_books.substr(1);
  EXPECT_EQ(Run(order).exit_code, 0);
  EXPECT_EQ(Out(), "") << "another folder";

  // Tasks from older versions have no database ID in the folder's name, so tasks of two databases
  // can have the same folder.
  const std::string plain = root_ + "/carma-5.ckpt";
  std::filesystem::rename(folder, plain);
  launcher_->Forget(kTask, 1, Dir());
  order.books_named = false;
  launcher_->Start(order);
  EXPECT_THAT(NextFailed().text, testing::HasSubstr("belongs to task 5"));
}

TEST_F(ShimLauncherTest, AFailedStartLeavesNoEmptyCheckpointFolder) {
  for (const bool no_output : {false, true}) {
    LaunchOrder order = Order("");
    order.attempt = no_output ? 2 : 1;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(order.attempt);
    order.saves = true;
    (no_output ? order.spec.stdout_path : order.spec.command.front()) = root_;
    launcher_->Start(order);
    NextFailed();
    EXPECT_FALSE(base::Exists(root_ + "/carma-5.ckpt")) << no_output;
  }
}

TEST_F(ShimLauncherTest, CheckpointsOfAnotherUserAreNotLoaded) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root";
  LaunchOrder order = Order("exit 0");
  const std::string folder = root_ + "/carma-5.ckpt";
  std::filesystem::create_directory(folder);
  ASSERT_EQ(::chown(folder.c_str(), 12'345, 12'345), 0);
  launcher_->Start(order);
  EXPECT_THAT(NextFailed().text, testing::HasSubstr("belongs to user 12345"));
}

TEST_F(ShimLauncherTest, RefusesAnotherUserWithTheSubmittersNumber) {
  LaunchOrder order = Order("exit 0");
  order.user = "somebody-else";
  launcher_->Start(order);
  const ShimEvent failed = NextFailed();
  EXPECT_THAT(failed.text,
              testing::HasSubstr("belonged to somebody-else at submission and now belongs to"));
  EXPECT_FALSE(failed.retryable);

  launcher_->Forget(kTask, 1, Dir());
  order.user = base::UserName(order.uid);
  EXPECT_EQ(Run(order).exit_code, 0);

  launcher_->Forget(kTask, 1, Dir());
  // If the user database does not respond at submission, the UID is stored as the user's name.
  order.user = std::to_string(order.uid);
  EXPECT_EQ(Run(order).exit_code, 0);
}

TEST_F(ShimLauncherTest, TheTaskOfADeletedUserWaits) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root";
  LaunchOrder order = Order("exit 0");
  order.uid = order.gid = 12'345;
  order.user = "somebody-else";
  launcher_->Start(order);
  const ShimEvent failed = NextFailed();
  EXPECT_EQ(failed.text, "user somebody-else no longer exists");
  EXPECT_TRUE(failed.waits) << "the machine is not at fault";
  EXPECT_TRUE(failed.no_user);
}

TEST_F(ShimLauncherTest, AsksOnceAHandlerIsInstalled) {
  LaunchOrder order = Order(
      "echo up > $TELL; read word < $GO; trap 'exit 85' USR1; sleep 1000 & while :; do wait; done");
  order.checkpoint_signal = "USR1";
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "up");
  launcher_->AskToSave(kTask, 1, {});
  while (Err().find("asked to checkpoint with USR1") == std::string::npos) ::sched_yield();
  Go();
  EXPECT_EQ(NextExited().exit_code, 85);
}

TEST_F(ShimLauncherTest, DoesNotKillATaskWithoutAHandler) {
  LaunchOrder order = Order("echo up > $TELL; read word < $GO; exit 3");
  order.checkpoint_signal = "USR1";
  order.saves = true;
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "up");
  launcher_->AskToSave(kTask, 1, {});
  while (Err().find("asked to checkpoint with USR1") == std::string::npos) ::sched_yield();
  Go();
  EXPECT_EQ(NextExited().exit_code, 3);
  EXPECT_FALSE(base::Exists(root_ + "/carma-5.ckpt")) << "an empty folder is removed";
}

// Interactive bash has a handler for every signal that would terminate it. The handler runs, and
// then bash exits anyway.
TEST_F(ShimLauncherTest, DoesNotAskAnInteractiveShellToSave) {
  LaunchOrder order =
      Order("trap '' TERM TSTP; trap 'exit 9' USR1; echo up > $TELL; read word < $GO; exit 3");
  order.checkpoint_signal = "USR1";
  launcher_->Start(order);
  NextStarted();
  EXPECT_EQ(Told(), "up");
  launcher_->AskToSave(kTask, 1, {});
  while (Err().find("asked to checkpoint with USR1") == std::string::npos) ::sched_yield();
  Go();
  EXPECT_EQ(NextExited().exit_code, 3);
}

TEST_F(ShimLauncherTest, KillsATaskThatIgnoresTermAfterTheGrace) {
  launcher_->Start(Order("trap '' TERM; sleep 1000 & echo $! > $TELL; wait"));
  NextStarted();
  const std::string child = Told();
  const auto asked = Clock::now();
  launcher_->Stop(kTask, 1);
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(NextExited().signal, SIGKILL);
  EXPECT_GE(Clock::now() - asked, std::chrono::milliseconds(50));
  EXPECT_TRUE(Gone(child));
}

TEST_F(ShimLauncherTest, StoppedProcessesGetTheStopSignalToo) {
  LaunchOrder order = Order("trap 'exit 9' TERM; kill -STOP $$; exit 1");
  order.kill_grace = base::Duration(kPatienceMs);
  launcher_->Start(order);
  const base::ProcessId main = NextStarted().process;
  while (base::Alive(main) && base::ReadProcessStat(main.pid)->state != 'T') ::sched_yield();
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(NextExited().exit_code, 9);
}

TEST_F(ShimLauncherTest, NothingOutlivesTheMainProcess) {
  struct Case {
    const char* name;
    const char* daemon;  // prints its pid to $TELL, then keeps running
  };
  const Case cases[] = {
      {"a child in the background", "sleep 1000 & echo $! > $TELL"},
      {"a double fork into a new session", "(setsid sh -c 'echo $$ > $TELL; exec sleep 1000' &) &"},
      {"a process that ignores TERM",
       "(setsid sh -c 'trap \"\" TERM; echo $$ > $TELL; while :; do sleep 1; done' &) &"},
  };
  int attempt = 0;
  for (const Case& c : cases) {
    LaunchOrder order = Order(std::string(c.daemon) + "\nread x < $GO; exit 4");
    order.attempt = ++attempt;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(attempt);
    launcher_->Start(order);
    NextStarted();
    const std::string pid = Told();
    Go();
    const ShimEvent exit = NextExited();
    EXPECT_EQ(exit.exit_code, 4) << c.name << ": the main process's exit code";
    EXPECT_FALSE(base::Exists("/proc/" + pid)) << c.name << ": gone and reaped before the report";
  }
}

TEST_F(ShimLauncherTest, NothingOutlivesATaskWithoutCgroups) {
  launcher_ = MakeShimLauncher({ShimPath(), {}}).value();
  launcher_->Start(
      Order("(setsid sh -c 'trap \"\" TERM; echo $$ > $TELL; "
            "while :; do sleep 1; done' &) & wait; sleep 1000"));
  EXPECT_EQ(NextStarted().cgroup, "");
  const std::string pid = Told();
  launcher_->Stop(kTask, 1);
  NextExited();
  EXPECT_FALSE(base::Exists("/proc/" + pid));
}

TEST_F(ShimLauncherTest, AFloodOfOutputIsRotatedAndCostsNoMemory) {
  LaunchOrder order = Order("yes 0123456789 | head -c 50000000; yes err | head -c 200000 >&2");
  order.max_output_bytes = 100'000;
  order.output_rotations = 2;
  launcher_->Start(order);
  NextStarted();
  const base::ProcessId shim = ShimProcess();
  std::int64_t peak_kib = 0;
  while (events_.empty()) {
    const Result<std::string> status =
        base::ReadFile("/proc/" + std::to_string(shim.pid) + "/status", 1 << 16);
    const std::size_t at = status ? status->find("VmHWM:") : std::string::npos;
    if (at != std::string::npos) {
      peak_kib =
          std::max(peak_kib, base::ParseInt(base::SplitWords(status->substr(at))[1]).value());
    }
    pollfd fd{launcher_->PollFd(), POLLIN, 0};
    ::poll(&fd, 1, 5);
    launcher_->Poll([this](ShimEvent event) { events_.push_back(std::move(event)); });
  }
  EXPECT_EQ(NextExited().stderr_tail.size(), kStderrTailBytes);
  for (const char* suffix : {"", ".1", ".2"}) {
    struct stat st {};
    ASSERT_EQ(::stat((root_ + "/out" + suffix).c_str(), &st), 0) << suffix;
    EXPECT_LE(st.st_size, 100'000) << suffix;
  }
  EXPECT_FALSE(base::Exists(root_ + "/out.3"));
  EXPECT_THAT(Out(), ::testing::StartsWith("0123456789\n"));
  RecordProperty("shim_peak_kib", static_cast<int>(peak_kib));
}

TEST_F(ShimLauncherTest, ForgettingRemovesTheFolderButFollowsNoLinks) {
  Run(Order("true"));
  ASSERT_TRUE(base::WriteFileAtomic(root_ + "/precious/keep", "x") ||
              (base::MakeDirs(root_ + "/precious") &&
               base::WriteFileAtomic(root_ + "/precious/keep", "x")));
  ASSERT_EQ(::symlink((root_ + "/precious").c_str(), (Dir() + "/link").c_str()), 0);
  launcher_->Forget(kTask, 1, Dir());
  EXPECT_FALSE(base::Exists(root_ + "/attempts/5"));
  EXPECT_TRUE(base::Exists(root_ + "/precious/keep"));
}

TEST_F(ShimLauncherTest, OnlyTheDaemonReadsTheFolder) {
  Run(Order("true"));
  for (const char* name : {kOrderFile, kOwnerFile, kStartedFile, kExitFile, kShimLogFile}) {
    struct stat st {};
    ASSERT_EQ(::stat((Dir() + "/" + name).c_str(), &st), 0) << name;
    EXPECT_EQ(st.st_mode & 0777, 0600U) << name;
  }
}

TEST_F(ShimLauncherTest, TheReportHasTheFactsOfTheRun) {
  Run(Order("exit 2"));
  const ShimReport report =
      ParseShimReport(base::ReadFile(Dir() + "/" + kExitFile, kReportReserveBytes).value()).value();
  EXPECT_EQ(report.exit_code, 2);
  EXPECT_GT(report.max_rss_kib, 100);
  EXPECT_GE(report.ended_boot_ns, report.started_boot_ns);
  EXPECT_GT(report.started_ms, 1'600'000'000'000);
}

}  // namespace
}  // namespace carma::task
