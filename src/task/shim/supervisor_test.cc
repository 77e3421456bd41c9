#include "task/shim/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/spawn.h"

namespace carma::task {
namespace {

constexpr int kSupervisorWaitMs = 20'000;

// These tests run the supervisor in a child, because it reaps every child of its process.
class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    dir_ = "/tmp/carma-supervisor-XXXXXX";
    CARMA_CHECK(::mkdtemp(dir_.data()) != nullptr, "no folder for the test");
    ::chmod(dir_.c_str(), 0777);
  }
  ~SupervisorTest() override { std::filesystem::remove_all(dir_); }

  // Supervises `main` and never returns.
  [[noreturn]] void Supervise(base::Duration grace, void (*main)(int tell), int tell,
                              void (*before_run)()) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const base::UniqueFd signals = ListenToSignals();
    ShimOrder order;
    order.attempt = 1;
    order.spec.stdout_path = order.spec.stderr_path = dir_ + "/out";
    Result<OutputPump> pump = OutputPump::Open(order);
    CARMA_CHECK(pump.has_value(), "no output");
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      main(tell);
      ::_exit(0);
    }
    pump->CloseTaskEnds();
    const UserInfo nobody{.uid = 65'534, .gid = 65'534, .groups = {65'534}};
    WornRights rights(nobody, 022);
    before_run();
    Supervisor(child, grace, signals.get(), *pump, rights, nullptr, std::nullopt).Run();
    ::_exit(0);
  }

  std::string dir_;
};

// Forks a process with exactly this pid. Returns -1 while the pid is taken, or if this process may
// not choose pids.
pid_t ForkAs(pid_t pid) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uint64_t>(&pid);
  arguments.set_tid_size = 1;
  return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

// Leaves behind a process that reports TERM, continues briefly, and then exits.
void LeaveAStubbornOne(int tell) {
  const pid_t self = ::getpid();
  if (::fork() != 0) return;
  ::setsid();
  static int told;
  told = tell;
  static pid_t leader;
  leader = self;
  ::signal(SIGTERM, [](int) { (void)!::write(told, &leader, sizeof leader); });
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  while (true) ::pause();
}

TEST_F(SupervisorTest, DoesNotSignalAProcessThatReusesTheLeadersPid) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to choose a pid";
  Result<base::Pipe> pipe = base::MakePipe(false);
  ASSERT_TRUE(pipe);
  const pid_t supervisor = ::fork();
  if (supervisor == 0) Supervise(base::Duration(500), &LeaveAStubbornOne, pipe->write.get(), [] {});
  // TERM arrives only after the leader has been reaped.
  pollfd told{pipe->read.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&told, 1, kSupervisorWaitMs), 1);
  pid_t leader = 0;
  ASSERT_EQ(::read(pipe->read.get(), &leader, sizeof leader), static_cast<ssize_t>(sizeof leader));
  const pid_t stranger = ForkAs(leader);
  if (stranger == 0) {
    ::setsid();
    while (true) ::pause();
  }
  int status = 0;
  EXPECT_EQ(::waitpid(supervisor, &status, 0), supervisor);
  EXPECT_EQ(status, 0);
  if (stranger < 0) GTEST_SKIP() << "the kernel does not let us choose a pid";
  EXPECT_EQ(::waitpid(stranger, &status, WNOHANG), 0) << "killed by signal " << WTERMSIG(status);
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
}

TEST_F(SupervisorTest, AbortsIfItCannotTakeTheUsersRights) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root";
  // Drops root's capabilities, so that the process cannot switch to "nobody".
  const auto lose_powers = [] { CARMA_CHECK(::seteuid(65'533) == 0, "seteuid"); };
  EXPECT_DEATH(Supervise(
                   base::Duration(10), [](int) {}, -1, lose_powers),
               "cannot switch to the task's user");
}

}  // namespace
}  // namespace carma::task
