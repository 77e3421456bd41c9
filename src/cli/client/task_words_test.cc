#include "cli/client/task_words.h"

#include <gtest/gtest.h>

namespace carma::cli {
namespace {

using api::TaskView;

TEST(TaskWords, ExitCodesFollowTheShell) {
  struct Case {
    const char* what;
    TaskView task;
    int code;
  };
  const Case cases[] = {
      {"success", {.state = "succeeded", .exit_code = 0}, 0},
      {"its own code", {.state = "failed", .exit_code = 3}, 3},
      {"a signal", {.state = "cancelled", .exit_code = 0, .signal = 15}, 143},
      {"never started", {.state = "rejected"}, 1},
      {"cancelled, but exited with 0", {.state = "cancelled", .exit_code = 0}, 1},
      {"out of memory", {.state = "out_of_memory", .exit_code = 1}, 1},
  };
  for (const Case& c : cases) EXPECT_EQ(ExitCodeOf(c.task), c.code) << c.what;
  EXPECT_EQ(EndText({.state = "failed", .signal = 9}), "failed, killed by signal 9 (Killed)");
  EXPECT_EQ(EndText({.state = "out_of_memory", .exit_code = 1}), "ran out of memory, exit code 1");
  EXPECT_EQ(EndText({.state = "out_of_memory"}), "ran out of memory");
  EXPECT_EQ(EndText({.state = "timed_out"}), "timed out");
}

}  // namespace
}  // namespace carma::cli
