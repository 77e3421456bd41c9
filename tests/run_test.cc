// Tests carma run and carma shell, which run tasks in the caller's terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class Run : public ::testing::Test {
 protected:
  Site site{{.shape = "1xA100-40GB"}};
};

// Runs `carma …` in a separate terminal. If `then` is given, the command runs as a job of a shell,
// which executes `then` once the job has stopped.
class AtTerminal {
 public:
  AtTerminal(const Site& site, Words words, const std::string& then = "") {
    words.insert(words.begin(), {Program("carma"), "--socket", site.socket()});
    if (!then.empty())
      words.insert(words.begin(), {"/bin/bash", "-c", "set -m; \"$@\"; " + then, "bash"});
    winsize size{};
    size.ws_row = 31;
    size.ws_col = 97;
    int master = -1;
    pid_ = ::forkpty(&master, nullptr, nullptr, &size);
    if (pid_ == 0) {
      if (::chdir(site.out_dir().c_str()) != 0) ::_exit(126);
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    master_.reset(master);
  }
  ~AtTerminal() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  void Type(const std::string& keys) { EXPECT_TRUE(base::WriteAll(master_.get(), keys)); }
  // Reads until the screen shows the text.
  bool Shows(const std::string& text) {
    while (screen_.find(text) == std::string::npos) {
      if (!WaitReadable(master_.get(), kDeadline)) return false;
      char bytes[4096];
      const ssize_t n = ::read(master_.get(), bytes, sizeof bytes);
      if (n <= 0) return false;
      screen_.append(bytes, static_cast<std::size_t>(n));
    }
    return true;
  }
  int ExitCode() {
    while (Shows("\x01never")) {
    }
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void CloseTerminal() { master_.reset(); }
  const std::string& screen() const { return screen_; }

 private:
  pid_t pid_ = 0;
  base::UniqueFd master_;
  std::string screen_;
};

TEST_F(Run, AListAtATerminalEndsWithTotalsAndAsATableDoesNot) {
  site.Start();
  ASSERT_TRUE(site.Carma({"submit", "--hold", "true"}).Ok());
  AtTerminal list(site, {"list"});
  EXPECT_EQ(list.ExitCode(), 0);
  EXPECT_THAT(list.screen(), HasSubstr("0 running, 1 waiting   0M of 39")) << list.screen();
  AtTerminal mine(site, {"list", "--state", "queued"});
  EXPECT_EQ(mine.ExitCode(), 0);
  EXPECT_THAT(mine.screen(), Not(HasSubstr("0 running")));
  EXPECT_THAT(site.Carma({"list"}).out, Not(HasSubstr("0 running")));
}

TEST_F(Run, SubmitReportsWaitingAndStartAtATerminal) {
  site.Start();
  const std::string gate = site.out_dir() + "/gate";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  AtTerminal person(site, {"submit", "--hold", "-W", "--", "cat", gate});
  EXPECT_TRUE(person.Shows("carma: waiting for task 1 to end")) << person.screen();
  ASSERT_TRUE(site.Carma({"release", "1"}).Ok());
  EXPECT_TRUE(person.Shows("carma: task 1 is running")) << person.screen();
  ASSERT_TRUE(site.Carma({"cancel", "1"}).Ok());
  EXPECT_NE(person.ExitCode(), 0);
  const Ran script = site.Carma({"submit", "-W", "true"});
  EXPECT_TRUE(script.Ok());
  EXPECT_THAT(script.err, Not(HasSubstr("waiting")));
}

TEST_F(Run, StreamsAndExitCodeAreTheTasks) {
  site.Start();
  const Ran ran = site.Carma(
      {"run", "--", "sh", "-c", "read x; echo got $x on $CARMA_TASK_ID; echo bad >&2; exit 5"},
      {.input = "words\n"});
  EXPECT_EQ(ran.code, 5) << ran.Text();
  EXPECT_EQ(ran.out, "got words on 1\n");
  EXPECT_THAT(ran.err, AllOf(HasSubstr("bad\n"), HasSubstr("task 1 failed with exit code 5")));
  const api::TaskView task = site.Task(1);
  EXPECT_EQ(task.state, "failed");
  EXPECT_EQ(task.stdout_path, "/dev/null") << "no file is left behind";
  EXPECT_EQ(site.Carma({"run", "-q", "--", "sh", "-c", "kill -9 $$"}).code, 128 + 9);
}

TEST_F(Run, ClosedStreamsAreNotTheSocket) {
  site.Start();
  const std::string run = Program("carma") + " --socket " + site.socket() + " run -q -G 0 -- ";
  for (const std::string closed : {"<&-", ">&-", "2>&-", "<&- >&- 2>&-"}) {
    const Ran ran = RunProgram({"sh", "-c", run + "sh -c 'echo out; echo err >&2' " + closed});
    EXPECT_TRUE(ran.Ok()) << closed << ran.Text();
  }
}

TEST_F(Run, KeepsACopyOfTheOutputOnRequest) {
  site.Start();
  const Ran ran = site.Carma({"run", "-o", "kept-%j", "--", "echo", "hello"});
  EXPECT_EQ(ran.out, "hello\n");
  EXPECT_EQ(site.Output(1), "hello\n");
}

TEST_F(Run, AnInterruptCancelsTheWaitingTask) {
  site.Start();
  Gated holder(site, "holder");
  holder.Submit(site, "exit 0", {"--exclusive"});
  ASSERT_EQ(holder.Hear(), "1");
  Child run = site.StartCarma({"run", "--", "echo", "never"});
  ASSERT_TRUE(Eventually([&] { return run.Err().find("task 2 waits (") != std::string::npos; }));
  run.Signal(SIGINT);
  const Ran ran = run.Wait();
  EXPECT_EQ(ran.code, 128 + SIGINT) << ran.Text();
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(site.Await(2).state, "cancelled");
  holder.Open();
}

TEST_F(Run, SignalsGoToTheTask) {
  site.Start();
  Bell bell(site.folder() / "bell");
  Child run = site.StartCarma(
      {"run", "--", "sh", "-c",
       "trap 'echo saved; exit 3' TERM; sleep 1000 & echo up > " + bell.path() + "; wait"});
  ASSERT_TRUE(bell.Hear());
  run.Signal(SIGTERM);
  const Ran ran = run.Wait();
  EXPECT_EQ(ran.code, 3) << ran.Text();
  EXPECT_EQ(ran.out, "saved\n");
}

TEST_F(Run, ALostDaemonDisturbsNoTask) {
  site.Start();
  Gated gate(site, "gate");
  Bell bell(site.folder() / "run-bell");
  Child run = site.StartCarma(
      {"run", "--", "sh", "-c", "echo up > " + bell.path() + "; read x; echo got $x; exit 6"},
      {.input = "late\n"});
  ASSERT_TRUE(bell.Hear());
  site.Stop(SIGKILL);
  ASSERT_TRUE(Eventually([&] { return run.Out() == "got late\n"; })) << run.Err();
  site.Start();
  const Ran ran = run.Wait();
  EXPECT_EQ(ran.code, 6) << ran.Text();
  EXPECT_EQ(site.Await(1).exit_code, 6);
}

TEST_F(Run, WithoutADaemonTheTasksOwnExitCodeIsOurs) {
  site.Start();
  Bell bell(site.folder() / "run-bell");
  Child run = site.StartCarma({"run", "--", "sh", "-c", "echo up > " + bell.path() + "; exit 6"});
  ASSERT_TRUE(bell.Hear());
  site.Stop(SIGKILL);
  const Ran ran = run.Wait();
  EXPECT_EQ(ran.code, 6) << ran.Text();
}

TEST_F(Run, RetriesInTheTerminalAfterRunningOutOfMemory) {
  site.Start();
  // The first attempt fails with PyTorch's out-of-memory message.
  const std::string fails =
      "test -e tried && { echo again; exit 0; }; touch tried; "
      "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB' >&2; exit 1";
  const Ran ran = site.Carma({"run", "--", "sh", "-c", fails}, {.cwd = site.out_dir()});
  EXPECT_EQ(site.Task(1).attempt, 1) << "input from a file cannot be read twice";
  EXPECT_EQ(ran.code, 1) << ran.Text();
  AtTerminal person(site, {"run", "--", "sh", "-c", "rm -f tried2; " + fails});
  ASSERT_TRUE(person.Shows("again")) << person.screen();
  EXPECT_EQ(person.ExitCode(), 0) << person.screen();
}

TEST_F(Run, CtrlZHoldsTheWaitingTaskUntilTheCommandContinues) {
  site.Start();
  ASSERT_TRUE(site.Carma({"drain", "all"}).Ok());
  AtTerminal person(site, {"run", "--", "echo", "it ran"}, "echo 'has stopped'; read line; fg");
  ASSERT_TRUE(person.Shows("task 1 waits (Draining)")) << person.screen();
  person.Type("\x1a");
  ASSERT_TRUE(person.Shows("has stopped")) << person.screen();
  EXPECT_EQ(site.Task(1).reason, "Held");
  ASSERT_TRUE(site.Carma({"resume", "all"}).Ok());
  person.Type("\n");
  EXPECT_TRUE(person.Shows("it ran")) << person.screen();
  EXPECT_EQ(person.ExitCode(), 0);
}

TEST_F(Run, ACommandInTheBackgroundTakesTheTerminalOnceItIsInTheForeground) {
  site.Start();
  ASSERT_TRUE(site.Carma({"drain", "all"}).Ok());
  AtTerminal person(site, {"run", "--", "sh", "-c", "echo it runs; read x; echo got $x"},
                    "echo 'has stopped'; bg; read line; fg");
  ASSERT_TRUE(person.Shows("task 1 waits (Draining)")) << person.screen();
  person.Type("\x1a");
  ASSERT_TRUE(person.Shows("has stopped")) << person.screen();
  ASSERT_TRUE(site.Carma({"resume", "all"}).Ok());
  ASSERT_TRUE(person.Shows("it runs")) << person.screen();
  person.Type("\n");
  person.Type("abc\r");
  EXPECT_TRUE(person.Shows("got abc")) << person.screen();
  EXPECT_EQ(person.ExitCode(), 0) << person.screen();
}

TEST_F(Run, KillingAStoppedCommandCancelsItsWaitingTask) {
  site.Start();
  ASSERT_TRUE(site.Carma({"drain", "all"}).Ok());
  AtTerminal person(site, {"run", "--", "true"}, "echo 'has stopped'; read line; kill -9 %1");
  ASSERT_TRUE(person.Shows("task 1 waits (Draining)")) << person.screen();
  person.Type("\x1a");
  ASSERT_TRUE(person.Shows("has stopped")) << person.screen();
  EXPECT_EQ(site.Task(1).reason, "Held");
  person.Type("\n");
  EXPECT_EQ(site.Await(1).state, "cancelled");
}

TEST_F(Run, TheTaskHasATerminal) {
  site.Start();
  AtTerminal person(site, {"run", "--", "sh", "-c",
                           "test -t 0 && stty size; read x; echo got $x; exec sleep 1000"});
  ASSERT_TRUE(person.Shows("31 97")) << person.screen();
  person.Type("abc\r");
  ASSERT_TRUE(person.Shows("got abc")) << person.screen();
  person.Type("\x03");
  EXPECT_EQ(person.ExitCode(), 128 + SIGINT) << person.screen();
  EXPECT_EQ(site.Await(1).signal, SIGINT);
}

TEST_F(Run, AClosedTerminalEndsTheTask) {
  site.Start();
  Bell bell(site.folder() / "bell");
  AtTerminal person(site, {"run", "--", "sh", "-c",
                           "trap 'echo hup > " + bell.path() +
                               "; exit 1' HUP; sleep 1000 & echo up > " + bell.path() + "; wait"});
  ASSERT_EQ(bell.Hear(), "up");
  person.CloseTerminal();
  EXPECT_EQ(bell.Hear(), "hup");
  EXPECT_EQ(site.Await(1).state, "failed");
}

TEST_F(Run, ATaskWithATerminalSeesTheEndOfPipedInput) {
  site.Start();
  const Ran empty = site.Carma({"run", "--pty", "--", "echo", "hello"});
  EXPECT_TRUE(empty.Ok()) << empty.Text();
  EXPECT_EQ(empty.out, "hello\r\n");
  for (const std::string input : {"typed\n", "unfinished"}) {
    const Ran ran =
        site.Carma({"run", "--pty", "--", "sh", "-c", "cat; echo end"}, {.input = input});
    EXPECT_TRUE(ran.Ok()) << ran.Text();
    EXPECT_THAT(ran.out, HasSubstr("end\r\n")) << ran.Text();
  }
}

TEST_F(Run, ReportsWhyTheOutputCannotBeWritten) {
  site.Start();
  const Ran ran = RunProgram(
      {"sh", "-c",
       Program("carma") + " --socket " + site.socket() + " run -q -G 0 -- echo hi > /dev/full"});
  EXPECT_EQ(ran.code, 1) << ran.Text();
  EXPECT_THAT(ran.err, HasSubstr("carma: write output: No space left on device"));
}

TEST_F(Run, AShellIsLeftWithItsExitCode) {
  site.Start();
  AtTerminal person(site, {"shell", "--memory", "2G", "--", "env", "PS1=ready>", "sh"});
  ASSERT_TRUE(person.Shows("ready>")) << person.screen();
  person.Type("echo gpu=${CUDA_VISIBLE_DEVICES%%-*}\r");
  ASSERT_TRUE(person.Shows("gpu=GPU")) << person.screen();
  person.Type("exit 9\r");
  EXPECT_EQ(person.ExitCode(), 9) << person.screen();
  EXPECT_EQ(site.Await(1).name, "shell");
}

TEST_F(Run, ReportsWhyAProgramCannotStart) {
  site.Start();
  const Ran at_once = site.Carma({"run", "--", "/no/such/program"});
  EXPECT_EQ(at_once.code, 2) << at_once.Text();
  EXPECT_THAT(at_once.err, HasSubstr("no program '"));
  const Ran later = site.Carma({"run", "--no-check", "--", "/no/such/program"});
  EXPECT_EQ(later.code, 1) << later.Text();
  EXPECT_THAT(later.err, HasSubstr("cannot run '/no/such/program'"));
  EXPECT_EQ(site.Carma({"run", "--array", "0-3", "--", "true"}).code, 2);
  EXPECT_EQ(site.Carma({"run"}).code, 2);
}

TEST_F(Run, ItsRedoIsAnOrdinaryTask) {
  site.Start();
  EXPECT_EQ(site.Carma({"run", "--", "echo", "hello"}).code, 0);
  EXPECT_EQ(site.Carma({"redo", "1"}).code, 0);
  EXPECT_EQ(site.Await(2).state, "succeeded");
  EXPECT_EQ(site.Output(2), "hello\n");
}

TEST_F(Run, RunsAsAnotherUserThroughARootDaemon) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  site.Start();
  const Ran ran = site.Carma({"run", "--", "id", "-u"}, {.uid = OtherUser()});
  EXPECT_EQ(ran.out, std::to_string(OtherUser()) + "\n") << ran.Text();
  EXPECT_EQ(ran.code, 0);
}

// Runs `carma ssh` as the ProxyCommand of an ssh client, as editors do.
TEST_F(Run, SshLandsInsideATask) {
  if (::access("/usr/sbin/sshd", X_OK) != 0)
    GTEST_SKIP() << "needs Debian's package openssh-server";
  site.Start();
  const std::string home = site.out_dir() + "/home", key = home + "/key";
  WriteText(site.out_dir() + "/make.sh",
            "#!/bin/sh\nset -e\nmkdir -p " + home + "/.ssh\nssh-keygen -q -t ed25519 -N '' -f " +
                key + "\ncp " + key + ".pub " + home + "/.ssh/authorized_keys\n",
            0755);
  ASSERT_EQ(RunProgram({site.out_dir() + "/make.sh"}).code, 0);
  const std::string proxy = "env HOME=" + home + " " + Program("carma") + " --socket " +
                            site.socket() + " ssh --gpu-mem 1G";
  const Ran ran = RunProgram({"ssh", "-F", "none", "-i", key, "-o", "ProxyCommand=" + proxy, "-o",
                              "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                              "gpu", "echo task $CARMA_TASK_ID on $CUDA_VISIBLE_DEVICES"});
  const api::TaskView task = site.Await(1);
  EXPECT_EQ(task.name, "ssh");
  ASSERT_EQ(task.gpu_uuids.size(), 1U) << ran.Text();
  EXPECT_EQ(ran.out, "task 1 on " + task.gpu_uuids[0] + "\n") << ran.Text();
}

}  // namespace
}  // namespace carma::system_test
