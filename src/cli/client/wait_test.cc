// Tests `carma wait` by running the whole command against a fake daemon.
#include <gtest/gtest.h>

#include <atomic>

#include "base/json.h"
#include "cli/client/app_fixture.h"
#include "cli/client/verbs.h"

namespace carma::cli {
namespace {

using base::Json;

TEST_F(App, WaitGivesTheHighestExitCodeAndOutlastsPolls) {
  std::atomic<int> polls = 0;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request&) {
    return JsonAnswer(TaskJson(1, ++polls < 3 ? "running" : "succeeded"));
  });
  daemon_.On("GET /v1/tasks/2", [](const api::Request&) {
    Json task = TaskJson(2, "failed");
    task["signal"] = 9;
    return JsonAnswer(task);
  });
  const Ran ran = Run({"wait", "1,2"});
  EXPECT_EQ(ran.exit_code, 137);
  EXPECT_EQ(ran.out, "Task 1 succeeded\nTask 2 failed, killed by signal 9 (Killed)\n");
  EXPECT_EQ(polls, 3);
}

TEST_F(App, WaitOutlastsARestartDuringItsFirstLongPoll) {
  std::atomic<int> long_polls = 0;
  daemon_.On("GET /v1/tasks/1", [&](const api::Request& request) {
    if (request.Query("wait_s") == "0") return JsonAnswer(TaskJson(1, "running"));
    if (++long_polls == 1)
      return api::ErrorResponse({ErrorCode::kUnavailable, "carmad is stopping"});
    return JsonAnswer(TaskJson(1, "succeeded"));
  });
  const Ran ran = Run({"wait", "1"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, "Task 1 succeeded\n");
  EXPECT_EQ(ran.err, "carma: warning: carmad is stopping; waiting for it\n");
}

TEST_F(App, WaitEndsAtItsTimeout) {
  daemon_.On("GET /v1/tasks/1",
             [](const api::Request&) { return JsonAnswer(TaskJson(1, "running")); });
  const Ran ran = Run({"wait", "--timeout", "0s", "1"});
  EXPECT_EQ(ran.exit_code, kExitTimeout);
  EXPECT_EQ(ran.out, "");
  daemon_.On("GET /v1/tasks/2",
             [](const api::Request&) { return JsonAnswer(TaskJson(2, "succeeded")); });
  const Ran json = Run({"wait", "--timeout", "0s", "--json", "2", "1"});
  EXPECT_EQ(json.exit_code, kExitTimeout);
  EXPECT_EQ(base::ParseJson(json.out)->at(0).at("id"), 2) << "the task that has ended";
}

}  // namespace
}  // namespace carma::cli
