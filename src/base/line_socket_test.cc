#include "base/line_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace carma::base {
namespace {

using namespace std::chrono_literals;

struct Pair {
  Pair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here = LineSocket(UniqueFd(ends[0]), 16);
    there = LineSocket(UniqueFd(ends[1]), 16);
  }
  LineSocket here, there;
};

TEST(LineSocket, LinesComeOneByOne) {
  Pair pair;
  ASSERT_TRUE(pair.there.Send("one\ntwo"));
  EXPECT_EQ(pair.here.Receive(10s).value_or(""), "one");
  EXPECT_TRUE(pair.here.HasLine());
  EXPECT_EQ(pair.here.Receive(0ms).value_or(""), "two");
}

// The deadline may have passed before the call, for example because the process was suspended.
TEST(LineSocket, ADeadlineThatHasPassedEndsTheWait) {
  Pair pair;
  for (const auto timeout : {0ms, -5ms, -60'000ms}) {
    const Result<std::string> none = pair.here.Receive(timeout);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  }
  ASSERT_TRUE(pair.there.Send("late"));
  EXPECT_EQ(pair.here.Receive(-5ms).value_or(""), "late");
}

TEST(LineSocket, DistinguishesATooLongLineFromAGonePeer) {
  Pair pair;
  ASSERT_TRUE(pair.there.Send("a line that is too long"));
  EXPECT_EQ(pair.here.Receive(10s).value_or(""), "a line that is too long") << "it is complete";
  ASSERT_TRUE(pair.here.Send("x"));
  pair.there.Close();
  const Result<std::string> gone = pair.here.Receive(10s);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace carma::base
