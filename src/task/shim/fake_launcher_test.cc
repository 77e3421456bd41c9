#include "task/shim/fake_launcher.h"

#include <gtest/gtest.h>

namespace carma::task {
namespace {

constexpr core::TaskId kFakeTask{7};

TEST(FakeLauncher, RecordsItsCalls) {
  FakeLauncher launcher;
  LaunchOrder order;
  order.id = kFakeTask;
  launcher.Start(order);
  launcher.Stop(kFakeTask, 1, "");
  launcher.Adopt({kFakeTask, 2, "/a"});
  launcher.Forget(kFakeTask, 3, "/b");
  ASSERT_EQ(launcher.started.size(), 1U);
  EXPECT_EQ(launcher.started[0].id, kFakeTask);
  EXPECT_EQ(launcher.stopped, (std::vector<FakeLauncher::Call>{{kFakeTask, 1, ""}}));
  EXPECT_EQ(launcher.adopted, (std::vector<KnownAttempt>{{kFakeTask, 2, "/a"}}));
  EXPECT_EQ(launcher.forgotten, (std::vector<FakeLauncher::Call>{{kFakeTask, 3, "/b"}}));
}

TEST(FakeLauncher, DeliversEventsOnceAndInOrder) {
  FakeLauncher launcher;
  launcher.EmitStarted(kFakeTask, 1, {42, 43});
  launcher.EmitExited(kFakeTask, 1, 5, "tail");
  launcher.EmitFailed(kFakeTask, 2, "no", true);
  std::vector<ShimEvent> events;
  const auto keep = [&](ShimEvent event) {
    if (event.kind == ShimEventKind::kStarted) launcher.EmitExited(kFakeTask, 9, 0);
    events.push_back(std::move(event));
  };
  launcher.Poll(keep);
  ASSERT_EQ(events.size(), 3U) << "events caused by the sink wait for the next call";
  EXPECT_EQ(events[0].process.pid, 42);
  EXPECT_EQ(events[1].exit_code, 5);
  EXPECT_EQ(events[1].stderr_tail, "tail");
  EXPECT_EQ(events[2].text, "no");
  EXPECT_TRUE(events[2].retryable);
  launcher.Poll(keep);
  EXPECT_EQ(events.size(), 4U);
}

}  // namespace
}  // namespace carma::task
