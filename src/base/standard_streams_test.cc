#include "base/standard_streams.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace carma::base {
namespace {

TEST(OpenStandardStreams, OpensDevNullForClosedStreamsOnly) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    int ends[2];
    if (::pipe(ends) != 0 || ::dup2(ends[1], STDOUT_FILENO) < 0) ::_exit(1);
    ::close(STDIN_FILENO);
    ::close(STDERR_FILENO);
    OpenStandardStreams();
    struct stat null {
    }, in{}, out{}, err{};
    if (::stat("/dev/null", &null) != 0 || ::fstat(STDIN_FILENO, &in) != 0 ||
        ::fstat(STDOUT_FILENO, &out) != 0 || ::fstat(STDERR_FILENO, &err) != 0)
      ::_exit(2);
    const bool right =
        in.st_rdev == null.st_rdev && err.st_rdev == null.st_rdev && S_ISFIFO(out.st_mode);
    ::_exit(right ? 0 : 3);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace carma::base
