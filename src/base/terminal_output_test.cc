#include "base/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/unique_fd.h"

namespace carma::base {
namespace {

TEST(TerminalOutput, AnUnreadTerminalRefusesOutputInsteadOfBlocking) {
  int master = -1, slave = -1;
  ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  const UniqueFd reads(master), writes(slave), shells(::dup(slave));
  NeverWaitForTerminal(writes.get());
  const std::string line(200, 'x');
  int lines = 0;
  while (::write(writes.get(), line.data(), line.size()) > 0 && lines < 100'000) ++lines;
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_GT(lines, 1);
  EXPECT_EQ(::fcntl(shells.get(), F_GETFL) & O_NONBLOCK, 0) << "the shell's flags are unchanged";
}

TEST(TerminalOutput, OtherFilesStayAsTheyAre) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reads(ends[0]), writes(ends[1]);
  NeverWaitForTerminal(writes.get());
  EXPECT_EQ(::fcntl(writes.get(), F_GETFL) & O_NONBLOCK, 0);
  NeverWaitForTerminal(-1);
}

}  // namespace
}  // namespace carma::base
