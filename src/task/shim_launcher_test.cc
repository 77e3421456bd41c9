// Real shims and real processes: what people can do to a task, and what the machine can.
#include "task/shim_launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "task/pidfd.h"
#include "task/process_tree.h"
#include "task/shim_protocol.h"
#include "task/shim_spawn.h"
#include "task/user.h"

namespace carma::task {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Clock = std::chrono::steady_clock;

constexpr uid_t kNobody = 65'534;
constexpr core::TaskId kTask{5};
constexpr int kPatienceMs = 20'000;  // for slow machines; a passing test never waits that long

std::string ShimPath() {
  return base::ExecutableDir() + "/carma-shim";
}

class ShimLauncherTest : public ::testing::Test {
 protected:
  ShimLauncherTest() {
    root_ = "/tmp/carma-shim-test-XXXXXX";
    CARMA_CHECK(::mkdtemp(root_.data()) != nullptr, "no folder for the test");
    ::chmod(root_.c_str(), 0777);
    tell_ = MakeFifo(root_ + "/tell");
    go_ = MakeFifo(root_ + "/go");
    Restart();
  }
  ~ShimLauncherTest() override {
    launcher_.reset();
    (void)!::system(("rm -rf " + root_).c_str());
  }

  // As if carmad was killed and started again: nothing of the old launcher's memory is left.
  void Restart() {
    launcher_ = MakeShimLauncher({ShimPath(), FindCgroupBase()});
    events_.clear();
  }

  LaunchOrder Order(const std::string& script_line) {
    LaunchOrder order;
    order.id = kTask;
    order.attempt = 1;
    order.attempt_dir = Dir();
    order.uid = ::getuid();
    order.gid = ::getgid();
    order.spec.name = "test";
    order.spec.command = {"/bin/sh", "-c", script_line};
    order.spec.workdir = root_;
    order.spec.stdout_path = root_ + "/out";
    order.spec.stderr_path = root_ + "/err";
    order.spec.environment = {
        {"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"TELL", root_ + "/tell"}, {"GO", root_ + "/go"}};
    order.gpu_uuids = {"GPU-x"};
    order.kill_grace = base::Duration(50);
    return order;
  }

  std::string Dir() const { return root_ + "/attempts/5/1"; }
  std::string Out() const { return base::ReadFile(root_ + "/out", 64 << 20).value_or("(none)"); }
  std::string Err() const { return base::ReadFile(root_ + "/err", 64 << 20).value_or("(none)"); }

  // The next event; fails the test after the patience.
  ShimEvent Next() {
    const auto deadline = Clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (events_.empty() && Clock::now() < deadline) {
      pollfd fd{launcher_->PollFd(), POLLIN, 0};
      ::poll(&fd, 1, kPatienceMs);
      launcher_->Poll([this](ShimEvent event) { events_.push_back(std::move(event)); });
    }
    if (events_.empty()) {
      ADD_FAILURE() << "no event came";
      return {};
    }
    ShimEvent event = events_.front();
    events_.erase(events_.begin());
    return event;
  }

  ShimEvent NextStarted() {
    ShimEvent event = Next();
    EXPECT_EQ(event.kind, ShimEventKind::kStarted) << event.text;
    return event;
  }
  ShimEvent NextExited() {
    ShimEvent event = Next();
    EXPECT_EQ(event.kind, ShimEventKind::kExited) << event.text;
    return event;
  }
  ShimEvent NextFailed() {
    ShimEvent event = Next();
    EXPECT_EQ(event.kind, ShimEventKind::kLaunchFailed);
    return event;
  }
  ShimEvent Run(LaunchOrder order) {
    launcher_->Start(std::move(order));
    NextStarted();
    return NextExited();
  }

  // Two pipes by name, as $TELL and $GO in the task's environment: the task tells that it has come
  // to a certain point, and is told to go on.
  static base::UniqueFd MakeFifo(const std::string& path) {
    CARMA_CHECK(::mkfifo(path.c_str(), 0666) == 0, "mkfifo");
    ::chmod(path.c_str(), 0666);
    return base::UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  }
  std::string Told() {
    std::string line;
    char c = 0;
    pollfd fd{tell_.get(), POLLIN, 0};
    while (::poll(&fd, 1, kPatienceMs) == 1 && ::read(tell_.get(), &c, 1) == 1 && c != '\n') {
      line += c;
    }
    return line;
  }
  void Go(const std::string& word = "go") { EXPECT_TRUE(base::WriteAll(go_.get(), word + "\n")); }

  base::ProcessId ShimProcess() {
    return ParseShimOwner(base::ReadFile(Dir() + "/" + kOwnerFile, kMaxOwnerBytes).value())
        .value()
        .process;
  }

  // Waits until that process is gone, however it is reaped.
  static bool Gone(const base::ProcessId& process) {
    const base::UniqueFd fd = OpenPidfd(process.pid);
    if (!fd || !base::Alive(process)) return true;
    pollfd wait{fd.get(), POLLIN, 0};
    return ::poll(&wait, 1, kPatienceMs) == 1;
  }
  static bool Gone(const std::string& pid_text) {
    const auto pid = static_cast<pid_t>(base::ParseInt(pid_text).value_or(0));
    const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
    return pid > 0 && (!stat || Gone(stat->id));
  }

  std::string root_;
  std::unique_ptr<Launcher> launcher_;
  std::vector<ShimEvent> events_;
  base::UniqueFd tell_;
  base::UniqueFd go_;
};

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
      {"a signal of its own", "kill -SEGV $$", 0, SIGSEGV},
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

TEST_F(ShimLauncherTest, TellsTheProcessThatRunsAndItsGroup) {
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

TEST_F(ShimLauncherTest, OutputGoesToItsFilesAndTheTailComesBack) {
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

TEST_F(ShimLauncherTest, TheTaskFindsACleanWorld) {
  LaunchOrder order = Order(
      "pwd; umask; echo $CUDA_VISIBLE_DEVICES $CARMA_TASK_ID; ls /proc/self/fd; "
      "readlink /proc/$$/fd/0; grep -E 'SigBlk|SigIgn|NoNewPrivs' /proc/$$/status; env | wc -l");
  ::signal(SIGUSR2, SIG_IGN);
  const ShimEvent exit = Run(order);
  ::signal(SIGUSR2, SIG_DFL);
  EXPECT_EQ(exit.exit_code, 0) << Err();
  const std::string text = Out();
  EXPECT_THAT(text, HasSubstr(root_ + "\n0022\nGPU-x 5\n0\n1\n2\n3\n/dev/null\n")) << "3: ls";
  EXPECT_THAT(text, HasSubstr("NoNewPrivs:\t1\n"));
  EXPECT_THAT(text, HasSubstr("SigBlk:\t0000000000000000\n"));
  // 32 and 33 belong to the C library, which leaves them so in every process it spawns.
  EXPECT_THAT(text, ContainsRegex("SigIgn:\t0000000[01][08]0000000\n"));
}

TEST_F(ShimLauncherTest, WhatCannotRunSaysWhy) {
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
      {"a command nobody has", {"no-such-cmd"}, root_, out, {}, "command 'no-such-cmd' not found"},
      {"a missing program", {root_ + "/none"}, root_, out, {}, "none': No such file"},
      {"no program", {root_ + "/plain"}, root_, out, {}, "neither a program nor a script"},
      {"not executable", {root_ + "/closed"}, root_, out, {}, "closed': Permission denied"},
      {"its interpreter is missing", {root_ + "/orphan"}, root_, out, {}, "the interpreter that"},
      {"a missing folder", {"true"}, root_ + "/no", out, {}, "/no': No such file or directory"},
      {"output into a missing folder", {"true"}, root_, root_ + "/no/out", {}, "/no/out': No such"},
      {"output onto a folder", {"true"}, root_, root_, {}, "': Is a directory"},
      {"a script without #!", {}, root_, out, "echo\n", "this is not a batch script"},
      {"a script with DOS line ends", {}, root_, out, "#!/bin/sh\r\n", "DOS line ends"},
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

TEST_F(ShimLauncherTest, AMissingShimIsTheMachinesFault) {
  launcher_ = MakeShimLauncher({"/no/such/carma-shim", {}});
  launcher_->Start(Order("true"));
  const ShimEvent failed = NextFailed();
  EXPECT_TRUE(failed.retryable);
  EXPECT_THAT(failed.text, HasSubstr("/no/such/carma-shim: No such file"));
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

TEST_F(ShimLauncherTest, ACondaEnvironmentIsEnteredOrMissed) {
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

TEST_F(ShimLauncherTest, AStopThatIsHeededLeavesTheTasksOwnExit) {
  launcher_->Start(
      Order("trap 'echo saved; exit 7' TERM; echo up > $TELL; while :; do read x < $GO; done"));
  NextStarted();
  EXPECT_EQ(Told(), "up");
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(NextExited().exit_code, 7);
  EXPECT_EQ(Out(), "saved\n");
}

TEST_F(ShimLauncherTest, AStopRightAfterTheStartIsNotLost) {
  LaunchOrder order = Order("while :; do sleep 1000; done");
  launcher_->Start(order);
  launcher_->Stop(kTask, 1);
  NextStarted();
  EXPECT_EQ(NextExited().signal, SIGTERM);
}

TEST_F(ShimLauncherTest, WhoIgnoresTermIsKilledAfterTheGrace) {
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

TEST_F(ShimLauncherTest, StoppedProcessesHearTheStopToo) {
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
    const char* daemon;  // prints its pid to $TELL, then stays
  };
  const Case cases[] = {
      {"a child in the background", "sleep 1000 & echo $! > $TELL"},
      {"a double fork into a new session", "(setsid sh -c 'echo $$ > $TELL; exec sleep 1000' &) &"},
      {"one that ignores TERM",
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
    EXPECT_EQ(exit.exit_code, 4) << c.name << ": the main process's own";
    EXPECT_FALSE(base::Exists("/proc/" + pid)) << c.name << ": gone and reaped before the report";
  }
}

TEST_F(ShimLauncherTest, WithoutCgroupsNothingOutlivesEither) {
  launcher_ = MakeShimLauncher({ShimPath(), {}});
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
    const base::Result<std::string> status =
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

TEST_F(ShimLauncherTest, TheReportHoldsTheFactsOfTheRun) {
  Run(Order("exit 2"));
  const ShimReport report =
      ParseShimReport(base::ReadFile(Dir() + "/" + kExitFile, kReportReserveBytes).value()).value();
  EXPECT_EQ(report.exit_code, 2);
  EXPECT_GT(report.max_rss_kib, 100);
  EXPECT_GE(report.ended_boot_ns, report.started_boot_ns);
  EXPECT_GT(report.started_ms, 1'600'000'000'000);
}

// ---- the daemon goes, the task stays ----

TEST_F(ShimLauncherTest, ARestartedDaemonFollowsARunningTask) {
  launcher_->Start(Order("echo up > $TELL; read x < $GO; exit $x"));
  const ShimEvent started = NextStarted();
  EXPECT_EQ(Told(), "up");
  Restart();
  launcher_->Adopt(kTask, 1, Dir());
  const ShimEvent again = NextStarted();
  EXPECT_EQ(again.process, started.process);
  EXPECT_EQ(again.cgroup, started.cgroup);
  Go("6");
  EXPECT_EQ(NextExited().exit_code, 6);
}

TEST_F(ShimLauncherTest, ARestartedDaemonCanStop) {
  launcher_->Start(Order("sleep 1000"));
  NextStarted();
  Restart();
  launcher_->Adopt(kTask, 1, Dir());
  launcher_->Stop(kTask, 1);
  NextStarted();
  EXPECT_EQ(NextExited().signal, SIGTERM);
}

TEST_F(ShimLauncherTest, ARestartedDaemonLearnsWhatEndedMeanwhile) {
  launcher_->Start(Order("echo bye >&2; exit 8"));
  NextStarted();
  const base::ProcessId shim = ShimProcess();
  Restart();
  ASSERT_TRUE(Gone(shim));
  launcher_->Adopt(kTask, 1, Dir());
  NextStarted();
  const ShimEvent exit = NextExited();
  EXPECT_EQ(exit.exit_code, 8);
  EXPECT_EQ(exit.stderr_tail, "bye\n");
}

TEST_F(ShimLauncherTest, ARestartedDaemonLearnsOfAFailedLaunchToo) {
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
  launcher_->Adopt(kTask, 2, order.attempt_dir);
  EXPECT_FALSE(NextFailed().retryable);
}

TEST_F(ShimLauncherTest, AnAttemptWithoutFolderNeverBegan) {
  launcher_->Adopt(kTask, 1, Dir());
  EXPECT_TRUE(NextFailed().retryable);
}

TEST_F(ShimLauncherTest, AnAbandonedAttemptIsNotRunByALateShim) {
  // The folder and the order of a daemon that died before its shim came up.
  launcher_->Start(Order("echo ran >> " + root_ + "/ran"));
  NextStarted();
  NextExited();
  ASSERT_EQ(::unlink((root_ + "/ran").c_str()), 0);
  for (const char* name : {kOwnerFile, kStartedFile, kExitFile}) {
    ASSERT_EQ(::unlink((Dir() + "/" + name).c_str()), 0);
  }
  Restart();
  launcher_->Adopt(kTask, 1, Dir());
  EXPECT_TRUE(NextFailed().retryable);
  base::Result<SpawnedShim> late = SpawnShim(ShimPath(), Dir());
  ASSERT_TRUE(late);
  int status = 0;
  ASSERT_EQ(::waitpid(late->process.pid, &status, 0), late->process.pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kShimNotOwner);
  EXPECT_FALSE(base::Exists(root_ + "/ran"));
  // A second restart gives the same answer, not "lost".
  Restart();
  launcher_->Adopt(kTask, 1, Dir());
  EXPECT_TRUE(NextFailed().retryable);
}

TEST_F(ShimLauncherTest, AnAttemptIsNotStartedTwice) {
  Run(Order("echo x >> " + root_ + "/ran"));
  launcher_->Start(Order("echo x >> " + root_ + "/ran"));
  EXPECT_TRUE(NextFailed().retryable);
  EXPECT_EQ(base::ReadFile(root_ + "/ran", 100).value(), "x\n");
}

TEST_F(ShimLauncherTest, AKilledShimTakesItsTaskAlongAndTheAttemptIsLost) {
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

TEST_F(ShimLauncherTest, LeftoversAreFoundWithoutCgroups) {
  launcher_ = MakeShimLauncher({ShimPath(), {}});
  // One has left the session, one has thrown its environment away.
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

TEST_F(ShimLauncherTest, AShimKilledWhileTheDaemonWasAwayIsLost) {
  launcher_->Start(Order("exec sleep 1000"));
  const ShimEvent started = NextStarted();
  const base::ProcessId shim = ShimProcess();
  Restart();
  ASSERT_EQ(::kill(shim.pid, SIGKILL), 0);
  ASSERT_TRUE(Gone(shim));
  launcher_->Adopt(kTask, 1, Dir());
  NextStarted();
  EXPECT_TRUE(NextExited().lost);
  EXPECT_TRUE(Gone(started.process));
}

TEST_F(ShimLauncherTest, AfterARebootTheAttemptIsLostAndNobodyIsKilled) {
  launcher_->Start(Order("exec sleep 1000"));
  const ShimEvent started = NextStarted();
  Restart();
  ShimOwner owner =
      ParseShimOwner(base::ReadFile(Dir() + "/" + kOwnerFile, kMaxOwnerBytes).value()).value();
  const base::ProcessId shim = owner.process;
  owner.boot_id = "another";
  ASSERT_TRUE(base::WriteFileAtomic(Dir() + "/" + kOwnerFile, ToText(owner)));
  launcher_->Adopt(kTask, 1, Dir());
  NextStarted();
  EXPECT_TRUE(NextExited().lost);
  EXPECT_TRUE(base::Alive(started.process)) << "in this boot, that number is somebody else's";
  ::kill(shim.pid, SIGTERM);
  EXPECT_TRUE(Gone(shim));
}

TEST_F(ShimLauncherTest, ATornOwnerOrReportIsLostNotACrash) {
  Run(Order("true"));
  for (const char* torn : {kExitFile, kOwnerFile}) {
    ASSERT_EQ(::truncate((Dir() + "/" + torn).c_str(), 5), 0);
    Restart();
    launcher_->Adopt(kTask, 1, Dir());
    NextStarted();
    EXPECT_TRUE(NextExited().lost) << torn;
  }
}

TEST_F(ShimLauncherTest, AnEndOfTheSystemIsLostNotFailed) {
  launcher_->Start(Order("exec sleep 1000"));
  NextStarted();
  ASSERT_EQ(::kill(ShimProcess().pid, SIGTERM), 0);  // as a shutdown does
  const ShimEvent exit = NextExited();
  EXPECT_TRUE(exit.lost);
  EXPECT_EQ(exit.signal, SIGTERM);
}

// kill -9 of shim or daemon at moments that chance chooses: each attempt ends in exactly one way,
// and its task ran at most once, exactly once if an exit with a code was told.
TEST_F(ShimLauncherTest, KillsAtAnyMomentEndEveryAttemptExactlyOnce) {
  base::Rng rng(20'260'301);
  for (int attempt = 1; attempt <= 150; ++attempt) {
    const std::string mark = root_ + "/ran." + std::to_string(attempt);
    LaunchOrder order = Order("echo x >> " + mark + "; exit 3");
    order.attempt = attempt;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(attempt);
    launcher_->Start(order);
    // A spin, not a sleep that tests wait on: the moment is the test's random input.
    const auto moment = Clock::now() + std::chrono::microseconds(rng.Below(6000));
    while (Clock::now() < moment) {
    }
    const bool kill_shim = rng.Below(2) == 0;
    if (kill_shim) {
      for (const base::ProcessStat& child : Descendants(::getpid())) {
        if (child.command == "carma-shim" && child.parent == ::getpid()) {
          ::kill(child.id.pid, SIGKILL);
        }
      }
    }
    if (rng.Below(2) == 0) {
      Restart();
      launcher_->Adopt(kTask, attempt, order.attempt_dir);
    }
    ShimEvent last = Next();
    if (last.kind == ShimEventKind::kStarted) last = Next();
    ASSERT_NE(last.kind, ShimEventKind::kStarted) << "attempt " << attempt;
    const std::string ran = base::ReadFile(mark, 100).value_or("");
    if (last.kind == ShimEventKind::kLaunchFailed) {
      EXPECT_TRUE(last.retryable) << last.text;
      EXPECT_EQ(ran, "") << "attempt " << attempt << ": said to have never begun";
    } else if (last.lost) {
      EXPECT_TRUE(ran.empty() || ran == "x\n") << "attempt " << attempt << ": " << ran;
    } else {
      EXPECT_EQ(last.exit_code, 3) << "attempt " << attempt;
      EXPECT_EQ(ran, "x\n") << "attempt " << attempt;
    }
    EXPECT_TRUE(kill_shim || !last.lost) << "attempt " << attempt;
    // And from now on the answer stays the same.
    Restart();
    launcher_->Adopt(kTask, attempt, order.attempt_dir);
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

// ---- users ----

TEST_F(ShimLauncherTest, AsRootTheTaskIsItsUserAndNothingMore) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  LaunchOrder order = Order("");
  order.uid = kNobody;
  order.gid = kNobody;
  order.spec.command.clear();
  order.spec.script = "#!/bin/sh\nid -u; id -g; id -G\ncat " + Dir() +
                      "/order.json && echo leaked\nls " + Dir() + " && echo leaked\necho \"$0\"\n";
  const ShimEvent exit = Run(order);
  EXPECT_THAT(Out(), MatchesRegex("65534\n65534\n65534\n/.*/script\n")) << Err();
  EXPECT_EQ(exit.exit_code, 0);
  struct stat st {};
  ASSERT_EQ(::stat((root_ + "/out").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, kNobody);
  EXPECT_EQ(st.st_gid, kNobody);
}

TEST_F(ShimLauncherTest, AScriptIsReachedEvenBelowAClosedStateFolder) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(base::MakeDirs(root_ + "/attempts", 0700));
  LaunchOrder order = Order("");
  order.uid = kNobody;
  order.gid = kNobody;
  order.spec.command.clear();
  order.spec.script = "#!/bin/sh\necho \"$0\"\nsh -c \"cat $0\" | head -1\n";
  EXPECT_EQ(Run(order).exit_code, 0) << Err();
  EXPECT_THAT(Out(), MatchesRegex("/proc/[0-9]+/fd/[0-9]+\n#!/bin/sh\n"));
}

TEST_F(ShimLauncherTest, RootsRightsOpenNoFileForAUser) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(base::MakeDirs(root_ + "/roots", 0755));
  LaunchOrder order = Order("true");
  order.uid = kNobody;
  order.gid = kNobody;
  order.spec.stdout_path = root_ + "/roots/out";
  launcher_->Start(order);
  const ShimEvent failed = NextFailed();
  EXPECT_FALSE(failed.retryable);
  EXPECT_THAT(failed.text, HasSubstr("/roots/out': Permission denied"));
  EXPECT_FALSE(base::Exists(root_ + "/roots/out"));
}

TEST_F(ShimLauncherTest, AUserCannotSignalTheShim) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  LaunchOrder order = Order("kill -USR1 $PPID || echo refused; kill -9 $PPID || echo refused");
  order.uid = kNobody;
  order.gid = kNobody;
  EXPECT_EQ(Run(order).exit_code, 0);
  EXPECT_EQ(Out(), "refused\nrefused\n");
}

TEST_F(ShimLauncherTest, AUsersTaskIsStoppedWithAllOfIt) {
  if (!CanSwitchUser()) GTEST_SKIP() << "needs root";
  LaunchOrder order = Order(
      "(setsid sh -c 'trap \"\" TERM; echo $$ > $TELL; "
      "while :; do sleep 1; done' &) & wait; sleep 1000");
  order.uid = kNobody;
  order.gid = kNobody;
  launcher_->Start(order);
  NextStarted();
  const std::string pid = Told();
  launcher_->Stop(kTask, 1);
  NextExited();
  EXPECT_FALSE(base::Exists("/proc/" + pid));
}

// ---- a full disk ----

class FullDiskTest : public ShimLauncherTest {
 protected:
  // A small disk of our own, in a namespace of our own.
  bool MountDisk(const std::string& path, const char* options) {
    return base::MakeDirs(path) && ::unshare(CLONE_NEWNS) == 0 &&
           ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("tmpfs", path.c_str(), "tmpfs", 0, options) == 0;
  }
  static void Fill(const std::string& path) {
    base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    while (base::WriteAll(fd.get(), std::string(4096, 'x'))) {
    }
  }
};

TEST_F(FullDiskTest, TheTasksDiskIsFullAndTheTaskGoesOn) {
  const std::string disk = root_ + "/disk";
  if (!MountDisk(disk, "size=64k")) GTEST_SKIP() << "needs root and mount namespaces";
  LaunchOrder order = Order("yes | head -c 1000000; echo done > " + root_ + "/ran; exit 5");
  order.spec.stdout_path = disk + "/out";
  EXPECT_EQ(Run(order).exit_code, 5);
  EXPECT_EQ(base::ReadFile(root_ + "/ran", 100).value(), "done\n");
  const ShimReport report =
      ParseShimReport(base::ReadFile(Dir() + "/" + kExitFile, kReportReserveBytes).value()).value();
  EXPECT_GE(report.dropped_output_bytes, 1'000'000 - 65'536);
  ::umount(disk.c_str());
}

TEST_F(FullDiskTest, CarmasDiskFillsUpAndTheReportIsStillWritten) {
  if (!MountDisk(root_ + "/attempts", "size=1m")) GTEST_SKIP() << "needs root and namespaces";
  launcher_->Start(Order("echo up > $TELL; read x < $GO; yes tail | head -c 100000 >&2; exit 5"));
  NextStarted();
  EXPECT_EQ(Told(), "up");
  Fill(root_ + "/attempts/filler");
  Go();
  const ShimEvent exit = NextExited();
  EXPECT_EQ(exit.exit_code, 5);
  EXPECT_EQ(exit.stderr_tail.size(), kStderrTailBytes);
  EXPECT_TRUE(base::Exists(Dir() + "/" + kExitFile));
  ::umount((root_ + "/attempts").c_str());
}

TEST_F(FullDiskTest, AReportThatCannotBeWrittenIsToldAndKeptUntilItCan) {
  if (!MountDisk(root_ + "/attempts", "size=1m")) GTEST_SKIP() << "needs root and namespaces";
  launcher_->Start(Order("echo up > $TELL; read x < $GO; exit 5"));
  NextStarted();
  EXPECT_EQ(Told(), "up");
  const base::ProcessId shim = ShimProcess();
  ASSERT_EQ(::unlink((Dir() + "/exit.json.reserve").c_str()), 0);  // the reserve itself fails
  Fill(root_ + "/attempts/filler");
  Go();
  EXPECT_EQ(NextExited().exit_code, 5) << "told through the pipe";
  EXPECT_TRUE(base::Alive(shim)) << "it keeps the report for a daemon that did not hear it";
  ASSERT_EQ(::unlink((root_ + "/attempts/filler").c_str()), 0);
  ASSERT_TRUE(Gone(shim));
  Restart();
  launcher_->Adopt(kTask, 1, Dir());
  NextStarted();
  EXPECT_EQ(NextExited().exit_code, 5);
  ::umount((root_ + "/attempts").c_str());
}

TEST_F(FullDiskTest, ADiskFullAtTheStartIsRetryable) {
  if (!MountDisk(root_ + "/attempts", "size=64k")) GTEST_SKIP() << "needs root and namespaces";
  launcher_->Start(Order("true"));  // 64 KiB: room for an order, none for the report's reserve
  const ShimEvent failed = NextFailed();
  EXPECT_TRUE(failed.retryable);
  EXPECT_THAT(failed.text, HasSubstr("No space left on device"));
  ::umount((root_ + "/attempts").c_str());
}

// ---- speed ----

TEST_F(ShimLauncherTest, AStartTakesMilliseconds) {
  constexpr int kStarts = 200;
  std::vector<double> milliseconds;
  for (int attempt = 1; attempt <= kStarts; ++attempt) {
    LaunchOrder order = Order("");
    order.spec.command = {"/bin/true"};
    order.attempt = attempt;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(attempt);
    const auto asked = Clock::now();
    launcher_->Start(order);
    NextStarted();
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - asked).count());
    NextExited();
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("start to started: p50 %.2f ms, p99 %.2f ms\n", milliseconds[kStarts / 2],
              milliseconds[kStarts * 99 / 100]);
  EXPECT_LT(milliseconds[kStarts / 2], 250) << "sanitizers and busy machines included";
}

}  // namespace
}  // namespace carma::task
