#include "base/exit_status.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/pidfd.h"

namespace carma::base {
namespace {

// A child process that exits by calling `end` once the pipe is closed.
struct Child {
  explicit Child(const std::function<void()>& end) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    pid = ::fork();
    if (pid == 0) {
      ::close(pipe[1]);
      char byte = 0;
      (void)!::read(pipe[0], &byte, 1);
      end();
    }
    ::close(pipe[0]);
    go.reset(pipe[1]);
    pidfd = OpenPidfd(pid);
    id = ReadProcessStat(pid).value_or(ProcessStat{}).id;
  }
  // Returns once the child has exited. The child has not been reaped yet.
  void End() {
    go.reset();
    pollfd ends{pidfd.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&ends, 1, 60'000), 1);
  }
  int Reap() const {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return status;
  }

  pid_t pid = 0;
  UniqueFd go, pidfd;
  ProcessId id;
};

TEST(ExitStatus, IsReportedForAProcessThatIsNotReaped) {
  Child child([] { ::_exit(7); });
  EXPECT_EQ(ExitStatusOf(child.id, child.pidfd), std::nullopt) << "it is still running";
  child.End();
  EXPECT_EQ(ExitStatusOf(child.id, child.pidfd), 7 << 8);
  EXPECT_EQ(ExitStatusOf(child.id, UniqueFd()), 7 << 8);
  EXPECT_EQ(ExitStatusOf({child.id.pid, child.id.start_ticks + 1}, UniqueFd()), std::nullopt)
      << "a different process had this pid";
  child.Reap();
}

TEST(ExitStatus, IsReportedForASignal) {
  Child child([] { ::raise(SIGKILL); });
  child.End();
  EXPECT_EQ(ExitStatusOf(child.id, child.pidfd), SIGKILL);
  child.Reap();
}

TEST(ExitStatus, IsReportedByTheKernelAfterReaping) {
  Child child([] { ::_exit(3); });
  child.End();
  const int status = child.Reap();
  EXPECT_EQ(ExitStatusOf(child.id, UniqueFd()), std::nullopt);
  const std::optional<int> told = ExitStatusOf(child.id, child.pidfd);
  if (!told) GTEST_SKIP() << "this kernel does not report it";
  EXPECT_EQ(*told, status);
}

}  // namespace
}  // namespace carma::base
