#include "base/program_output.h"

#include <gtest/gtest.h>

namespace carma::base {
namespace {

TEST(OutputOf, IsTheOutputOfASuccessfulProgram) {
  EXPECT_EQ(OutputOf({"/bin/echo", "two words"}, 100), "two words\n");
  EXPECT_EQ(OutputOf({"/bin/sh", "-c", "echo told; exit 3"}, 100), "");
  EXPECT_EQ(OutputOf({"/bin/echo", "two words"}, 3), "") << "more output than allowed";
  EXPECT_EQ(OutputOf({"/nonexistent/program"}, 100), "");
}

TEST(OutputOf, KillsAfterTimeout) {
  EXPECT_EQ(OutputOf({"/bin/sleep", "1000"}, 100, std::chrono::milliseconds(1)), "");
}

}  // namespace
}  // namespace carma::base
