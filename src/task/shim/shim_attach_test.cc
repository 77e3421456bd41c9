// Tests tasks in a user's terminal, with real shims.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "base/spawn.h"
#include "task/attach/attach_socket.h"
#include "task/shim/shim_fixture.h"

namespace carma::task {
namespace {

using Kind = AttachMessage::Kind;
using ::testing::HasSubstr;

class ShimAttachTest : public ShimLauncherTest {
 protected:
  LaunchOrder Attached(const std::string& script_line, bool terminal) {
    LaunchOrder order = Order(script_line);
    order.spec.attach = listener_.name();
    order.spec.terminal = terminal;
    return order;
  }
  void Accept() {
    pollfd fd{listener_.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&fd, 1, kPatienceMs), 1);
    std::optional<AttachSocket> came = listener_.Accept();
    ASSERT_TRUE(came);
    person_ = std::move(*came);
  }
  void Greet(int input = -1) {
    EXPECT_TRUE(person_.Send({.kind = Kind::kHello, .size = {33, 99}}, input).value());
  }
  void Say(AttachMessage message) { EXPECT_TRUE(person_.Send(message).value()); }
  // Reads until the output contains `text` or the connection ends. Stores the shim's last message
  // in end_.
  std::string Hear(const std::string& text, Kind kind = Kind::kOutput) {
    std::string heard;
    while (text.empty() || heard.find(text) == std::string::npos) {
      pollfd fd{person_.fd(), POLLIN, 0};
      if (::poll(&fd, 1, kPatienceMs) != 1) {
        ADD_FAILURE() << "nothing came after: " << heard;
        break;
      }
      Result<std::optional<AttachSocket::Received>> received = person_.Receive();
      if (!received) break;
      if (!*received) continue;
      const AttachMessage& message = (*received)->message;
      if (message.kind == kind) heard += message.data;
      if (message.kind == Kind::kEnded || message.kind == Kind::kRefused) end_ = message;
    }
    return heard;
  }

  AttachListener listener_ = AttachListener::Open().value();
  AttachSocket person_;
  std::optional<AttachMessage> end_;
};

TEST_F(ShimAttachTest, HasItsOwnPipesAndReportsTheEnd) {
  Result<base::Pipe> input = base::MakePipe(false);
  ASSERT_TRUE(base::WriteAll(input->write.get(), "typed\n"));
  input->write.reset();
  launcher_->Start(Attached("read x; echo got $x; echo bad >&2; exit 7", false));
  Accept();
  Greet(input->read.get());
  EXPECT_EQ(Hear(""), "got typed\n");
  ASSERT_TRUE(end_);
  EXPECT_EQ(*end_, (AttachMessage{.kind = Kind::kEnded, .number = 7}));
  NextStarted();
  const ShimEvent exited = NextExited();
  EXPECT_EQ(exited.exit_code, 7);
  EXPECT_EQ(exited.stderr_tail, "bad\n") << "the output that shows an OOM must be kept";
  EXPECT_EQ(Out(), "got typed\n");
}

TEST_F(ShimAttachTest, TheTaskGetsARealTerminal) {
  launcher_->Start(Attached("test -t 0 && test -t 2 && stty size; read x; echo got $x", true));
  Accept();
  Greet();
  Hear("33 99");
  Say({.kind = Kind::kWindow, .size = {11, 22}});
  Say({.kind = Kind::kInput, .data = "abc\r"});
  Hear("got abc");
  NextStarted();
  EXPECT_EQ(NextExited().exit_code, 0);
  EXPECT_THAT(Out(), HasSubstr("got abc"));
}

TEST_F(ShimAttachTest, ShowsATerminalThatIsOpenedAgain) {
  launcher_->Start(
      Attached("trap 'echo later > /dev/tty; read x < $GO; exit 3' USR1; "
               "exec < /dev/null > /dev/null 2>&1; sleep 1000 & echo closed > $TELL; wait",
               true));
  Accept();
  Greet();
  EXPECT_EQ(Told(), "closed");
  // The shim looks at the terminal before it passes the signal on.
  Say({.kind = Kind::kSignal, .number = SIGUSR1});
  EXPECT_THAT(Hear("later"), HasSubstr("later"));
  Go();
  NextStarted();
  EXPECT_EQ(NextExited().exit_code, 3);
}

TEST_F(ShimAttachTest, TheTaskSeesANewWindowSize) {
  launcher_->Start(Attached("trap 'stty size; exit 0' WINCH; sleep 1000 & echo up; wait", true));
  Accept();
  Greet();
  Hear("up");
  Say({.kind = Kind::kWindow, .size = {11, 22}});
  Hear("11 22");
  NextStarted();
  EXPECT_EQ(NextExited().exit_code, 0);
}

TEST_F(ShimAttachTest, KeysMakeSignalsInATerminal) {
  launcher_->Start(Attached("echo up; exec sleep 1000", true));
  Accept();
  Greet();
  Hear("up");
  Say({.kind = Kind::kInput, .data = "\x03"});
  Hear("");
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->signal, SIGINT);
  NextStarted();
  EXPECT_EQ(NextExited().signal, SIGINT);
}

TEST_F(ShimAttachTest, SignalsArePassedOn) {
  base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  launcher_->Start(Attached("trap 'echo saved; exit 3' USR1; sleep 1000 & echo up; wait", false));
  Accept();
  Greet(null.get());
  Hear("up");
  Say({.kind = Kind::kSignal, .number = SIGUSR1});
  Hear("saved");
  NextStarted();
  EXPECT_EQ(NextExited().exit_code, 3);
}

TEST_F(ShimAttachTest, HangsUpWhenTheClientLeaves) {
  // The child prints "up" only once it runs its own program. Until then, it has the outer shell's
  // signal handler, and would survive the hangup until the end of the grace period.
  LaunchOrder order = Attached(
      "trap 'echo bye > $TELL; exit 4' HUP; sh -c 'echo up; exec sleep 1000' & wait", true);
  order.kill_grace = base::Duration(kPatienceMs);
  launcher_->Start(std::move(order));
  Accept();
  Greet();
  Hear("up");
  person_.Close();
  EXPECT_EQ(Told(), "bye");
  NextStarted();
  const ShimEvent exited = NextExited();
  EXPECT_EQ(exited.exit_code, 4);
  EXPECT_THAT(exited.stderr_tail, HasSubstr("this task's 'carma run' has disconnected"));
}

TEST_F(ShimAttachTest, StoppingHangsUpAShellAndShowsTheReason) {
  LaunchOrder order = Attached("", true);
  order.spec.command = {"/bin/sh", "-i"};
  order.kill_grace = base::Duration(kPatienceMs);
  launcher_->Start(std::move(order));
  Accept();
  Greet();
  Say({.kind = Kind::kInput, .data = "echo u''p\r"});
  Hear("up");
  NextStarted();
  launcher_->Stop(kTask, 1, "Its GPU had to be vacated by 2026-11-15T04:21:14.982Z.");
  const std::string told = Hear(":14.\r\n");  // the hour depends on the time zone
  EXPECT_THAT(told, HasSubstr("carma: this task is being stopped: Its GPU had to be vacated by "));
  EXPECT_THAT(told, HasSubstr(":14.\r\n"));
  EXPECT_EQ(NextExited().signal, SIGHUP);
  EXPECT_EQ(Out().find("being stopped"), std::string::npos);
}

TEST_F(ShimAttachTest, AProgramThatIgnoresTermIsNotHungUp) {
  launcher_->Start(Attached("trap '' TERM; sh -c 'echo up; exec sleep 1000'; read x", true));
  Accept();
  Greet();
  Hear("up");
  NextStarted();
  launcher_->Stop(kTask, 1);
  EXPECT_EQ(NextExited().signal, SIGKILL) << "it may be saving until the end of the grace period";
}

TEST_F(ShimAttachTest, AShellIsHungUpOnlyOnceItsJobHasSaved) {
  // Ignores TERM and TSTP, as an interactive shell does.
  LaunchOrder order = Attached(
      "sh -c 'trap \"read x < $GO; echo saved > $TELL; exit\" TERM; "
      "sh -c \"echo up > $TELL; exec sleep 1000\" & wait' & "
      "trap '' TERM TSTP; echo up > $TELL; wait; read x",
      true);
  order.kill_grace = base::Duration(kPatienceMs);
  launcher_->Start(std::move(order));
  Accept();
  Greet();
  NextStarted();
  EXPECT_EQ(Told(), "up");
  EXPECT_EQ(Told(), "up");
  launcher_->Stop(kTask, 1);
  Hear("carma: this task is being stopped\r\n");
  Go();
  EXPECT_EQ(Told(), "saved");
  EXPECT_EQ(NextExited().signal, SIGHUP);
}

TEST_F(ShimAttachTest, KillsATaskThatIgnoresTheHangup) {
  launcher_->Start(Attached("trap '' HUP; sleep 1000 & echo up; wait", true));
  Accept();
  Greet();
  Hear("up");
  person_.Close();
  NextStarted();
  EXPECT_EQ(NextExited().signal, SIGKILL);
}

TEST_F(ShimAttachTest, RunsNothingWithoutAWaitingClient) {
  LaunchOrder order = Attached("echo up > $TELL", false);
  listener_ = AttachListener::Open().value();
  launcher_->Start(std::move(order));
  const ShimEvent failed = NextFailed();
  EXPECT_THAT(failed.text, HasSubstr("the 'carma run' waiting for the task is gone"));
  EXPECT_FALSE(failed.retryable);
}

// The shim hangs, as it would in a folder that does not respond: it waits for the client's
// greeting.
TEST_F(ShimAttachTest, AStartThatHangsIsGivenUpAndLaterTriedAgain) {
  for (const bool adopted : {false, true}) {
    const ShimLauncherOptions options{.shim_path = ShimPath(),
                                      .cgroup = FindCgroupBase(),
                                      .start_warning = base::Duration(0),
                                      .start_limit = base::Duration(100)};
    if (!adopted) launcher_ = MakeShimLauncher(options).value();
    LaunchOrder order = Attached("echo up", true);
    order.attempt = adopted ? 2 : 1;
    order.attempt_dir = root_ + "/attempts/5/" + std::to_string(order.attempt);
    launcher_->Start(order);
    Accept();
    if (adopted) {
      launcher_ = MakeShimLauncher(options).value();
      launcher_->Adopt({kTask, order.attempt, order.attempt_dir, ::getuid()});
    }
    const ShimEvent failed = NextFailed();
    EXPECT_TRUE(failed.waits) << "the machine is not at fault";
    EXPECT_THAT(failed.text, HasSubstr("it did not start"));
    Hear("");  // until the shim is gone
    EXPECT_FALSE(base::Exists(root_ + "/out"));
  }
}

TEST_F(ShimAttachTest, ReportsAFailedStartToTheClient) {
  LaunchOrder order = Attached("", true);
  order.spec.command = {"/no/such/program"};
  launcher_->Start(std::move(order));
  Accept();
  Greet();
  Hear("");
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->kind, Kind::kRefused);
  EXPECT_THAT(end_->data, HasSubstr("/no/such/program"));
  NextFailed();
}

// Writes 8 MiB to a terminal that is not read for a while. The task waits, nothing is lost, and the
// task can still be stopped.
TEST_F(ShimAttachTest, ASlowReaderDelaysTheTask) {
  base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  launcher_->Start(Attached("head -c 8388608 /dev/zero; echo done > $TELL", false));
  Accept();
  Greet(null.get());
  NextStarted();
  EXPECT_EQ(Hear("").size(), 8'388'608U);
  EXPECT_EQ(Told(), "done");
  EXPECT_EQ(NextExited().exit_code, 0);
}

TEST_F(ShimAttachTest, AnUnreadTaskCanBeStopped) {
  base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  launcher_->Start(Attached("echo up > $TELL; exec cat /dev/zero", false));
  Accept();
  Greet(null.get());
  EXPECT_EQ(Told(), "up");
  NextStarted();
  launcher_->Stop(kTask, 1);
  // The shim waits a while for its last output to be read, so read it.
  Hear("");
  EXPECT_EQ(NextExited().signal, SIGTERM);
}

}  // namespace
}  // namespace carma::task
