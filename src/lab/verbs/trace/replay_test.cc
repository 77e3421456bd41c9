#include "lab/verbs/trace/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "task/describe/spec.h"

namespace carma::cli {
namespace {

// A daemon whose tasks run for a fixed simulated time on any number of GPUs. Its clock moves only
// when the replay pauses or waits.
class FakeServer : public ReplayServer {
 public:
  static constexpr std::int64_t kRunMs = 60'000;
  struct Task {
    std::int64_t submitted_ms = 0;
    std::string spec;
  };

  Result<api::StatusView> Status() override {
    if (unavailable > 0) {
      --unavailable;
      return Unavailable("away");
    }
    api::StatusView status;
    status.now_ms = now_ms;
    status.time_scale = scale;
    return status;
  }
  Result<std::vector<std::uint64_t>> Submit(const std::vector<std::string>& specs) override {
    if (refuse) return Invalid("refused");
    std::vector<std::uint64_t> ids;
    for (const std::string& spec : specs) {
      tasks[next_id] = {now_ms, spec};
      ids.push_back(next_id++);
    }
    ++submissions;
    return ids;
  }
  Result<std::vector<api::TaskView>> Unfinished() override {
    std::vector<api::TaskView> views{View(7)};  // another user's task
    views.front().state = "running";
    for (const auto& [id, task] : tasks) {
      if (View(id).state == "running") views.push_back(View(id));
    }
    return views;
  }
  Result<api::TaskView> Await(std::uint64_t id, std::chrono::seconds wait) override {
    now_ms += static_cast<std::int64_t>(static_cast<double>(wait.count()) * 1000 * scale);
    return View(id);
  }
  void Pause(std::chrono::milliseconds real_time) override {
    now_ms += static_cast<std::int64_t>(static_cast<double>(real_time.count()) * scale);
  }

  std::int64_t now_ms = 1'000'000;
  double scale = 10;
  int unavailable = 0;
  bool refuse = false;
  int submissions = 0;
  std::uint64_t next_id = 40;
  std::uint64_t failing = 0;
  std::map<std::uint64_t, Task> tasks;

 private:
  api::TaskView View(std::uint64_t id) const {
    api::TaskView view;
    view.id = id;
    const auto task = tasks.find(id);
    const bool over = task != tasks.end() && now_ms >= task->second.submitted_ms + kRunMs;
    view.state = !over ? "running" : id == failing ? "failed" : "succeeded";
    view.ooms = id == failing ? 2 : 0;
    return view;
  }
};

std::vector<ReplayStep> Steps(const std::vector<std::int64_t>& at_s) {
  std::vector<ReplayStep> steps;
  for (const std::int64_t s : at_s)
    steps.push_back({std::chrono::seconds(s), "spec" + std::to_string(steps.size())});
  return steps;
}

TEST(Replay, SubmitsEachTaskAtItsTimeOnTheDaemonsClock) {
  FakeServer server;
  const auto result = Replay(server, {}).Run(Steps({0, 0, 5, 73}), /*wait=*/false);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->submitted, (std::vector<std::uint64_t>{40, 41, 42, 43}));
  EXPECT_EQ(server.submissions, 3) << "tasks due together are submitted together";
  std::vector<std::int64_t> after_ms;
  for (const auto& [id, task] : server.tasks) after_ms.push_back(task.submitted_ms - 1'000'000);
  ASSERT_EQ(after_ms.size(), 4u);
  EXPECT_EQ(after_ms[0], 0);
  EXPECT_EQ(after_ms[1], 0);
  EXPECT_NEAR(static_cast<double>(after_ms[2]), 5'000, 10) << "at most a real millisecond late";
  EXPECT_NEAR(static_cast<double>(after_ms[3]), 73'000, 10);
  EXPECT_EQ(server.tasks[43].spec, "spec3");
}

TEST(Replay, WaitsUntilAllHaveEnded) {
  FakeServer server;
  server.failing = 41;
  std::vector<ReplayProgress> shown;
  const auto result = Replay(server, [&](const ReplayProgress& p) {
                        shown.push_back(p);
                      }).Run(Steps({0, 30}), true);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->succeeded, 1u);
  EXPECT_EQ(result->failed, 1u);
  EXPECT_EQ(result->ooms, 2);
  EXPECT_EQ(result->running + result->queued, 0u);
  EXPECT_GE(result->elapsed, std::chrono::seconds(90));
  EXPECT_LT(result->elapsed, std::chrono::seconds(120));
  ASSERT_GE(shown.size(), 3u);
  EXPECT_EQ(shown.front().running, 1u) << "other tasks do not count";
}

TEST(Replay, SurvivesARestartOfTheDaemon) {
  FakeServer server;
  const auto steps = Steps({0, 30});
  Replay replay(server, [&](const ReplayProgress& p) {
    if (p.submitted.size() == 1) server.unavailable = 5;
  });
  const auto result = replay.Run(steps, true);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->succeeded, 2u);
}

TEST(Replay, GivesUpWhenTheDaemonStaysAway) {
  FakeServer server;
  Replay replay(server, [&](const ReplayProgress&) { server.unavailable = 1'000; });
  const auto result = replay.Run(Steps({0, 30}), true);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "after 1 of 2 submissions: away");
}

TEST(Replay, ReportsItsProgress) {
  FakeServer server;
  server.refuse = true;
  const auto result = Replay(server, {}).Run(Steps({0}), true);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "after 0 of 1 submissions: refused");
}

TEST(PlanReplay, MakesSimulatedTasks) {
  const auto catalogue = trace::Catalogue::BuiltIn();
  ASSERT_TRUE(catalogue);
  const auto trace =
      trace::ParseTrace("submit_s,workload_id\n0,resnet50-b32\n9,gpt2-large-2gpu\n", "t.csv");
  const auto workloads = trace::MatchWorkloads(*trace, *catalogue, "t.csv");
  ASSERT_TRUE(workloads);
  const auto steps = PlanReplay(*trace, *workloads,
                                {.estimate = "gpumemnet",
                                 .simtask = "/opt/carma-simtask",
                                 .output_dir = "/out",
                                 .environment = {{"PATH", "/bin"}}});
  ASSERT_TRUE(steps) << steps.error().message;
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[1].at, std::chrono::seconds(9));
  const auto first = task::SpecFromJsonText((*steps)[0].spec);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->name, "resnet50-b32");
  EXPECT_EQ(first->command.front(), "/opt/carma-simtask");
  EXPECT_EQ(first->memory_mib, 16'000);
  EXPECT_EQ(first->memory_source, "gpumemnet");
  EXPECT_FALSE(first->exclusive);
  EXPECT_EQ(first->workdir, "/out");
  const auto second = task::SpecFromJsonText((*steps)[1].spec);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->gpus, 2);
  EXPECT_FALSE(second->memory_mib);
  EXPECT_TRUE(second->exclusive) << "no estimate is possible, so it gets exclusive GPUs";
}

TEST(PlanReplay, ATaskGetsTheClassAccountCoresAndGpuTypeOfItsRow) {
  const auto catalogue = trace::Catalogue::BuiltIn();
  const auto trace = trace::ParseTrace(
      "submit_s,workload_id,gpu_type,account,qos,cpus\n"
      "0,resnet50-b32,a100,vision,background,2.5\n"
      "9,resnet50-b32,,,,0\n",
      "t.csv");
  const auto workloads = trace::MatchWorkloads(*trace, *catalogue, "t.csv");
  ASSERT_TRUE(workloads);
  const auto steps = PlanReplay(*trace, *workloads,
                                {.estimate = "oracle", .simtask = "/opt/t", .output_dir = "/out"});
  ASSERT_TRUE(steps) << steps.error().message;
  const auto named = task::SpecFromJsonText((*steps)[0].spec);
  EXPECT_EQ(named->gpu_type, "a100");
  EXPECT_EQ(named->account, "vision");
  EXPECT_EQ(named->qos, "background");
  EXPECT_EQ(named->cpus, 3) << "rounded up";
  const auto usual = task::SpecFromJsonText((*steps)[1].spec);
  EXPECT_FALSE(usual->account);
  EXPECT_FALSE(usual->cpus);
}

TEST(PlanReplay, ATaskMayStateItsMemoryInsteadOfTheEstimate) {
  const auto catalogue = trace::Catalogue::BuiltIn();
  ASSERT_TRUE(catalogue);
  const auto trace =
      trace::ParseTrace("submit_s,workload_id\n0,resnet50-b32\n9,gpt2-large-2gpu\n", "t.csv");
  const auto workloads = trace::MatchWorkloads(*trace, *catalogue, "t.csv");
  ASSERT_TRUE(workloads);
  ReplayOptions options{
      .estimate = "gpumemnet", .said_mib = {{2, 6'144}}, .simtask = "/opt/t", .output_dir = "/out"};
  const auto steps = PlanReplay(*trace, *workloads, options);
  ASSERT_TRUE(steps) << steps.error().message;
  EXPECT_EQ(task::SpecFromJsonText((*steps)[0].spec)->memory_mib, 16'000);
  const auto said = task::SpecFromJsonText((*steps)[1].spec);
  EXPECT_EQ(said->memory_mib, 6'144);
  EXPECT_FALSE(said->exclusive);
  options.said_mib = {{3, 6'144}};
  EXPECT_EQ(PlanReplay(*trace, *workloads, options).error().message,
            "--memory 3=…: no such task; the trace has 2 tasks");
}

TEST(ProgressText, ShowsTheKnownValues) {
  ReplayProgress progress{.total = 60, .submitted = {1, 2, 3}};
  progress.running = 2;
  progress.succeeded = 1;
  progress.elapsed = std::chrono::seconds(3725);
  EXPECT_EQ(ProgressText(progress), "57 to come, 0 queued, 2 running, 1 done, 1:02:05");
  progress.total = 3;
  progress.failed = 1;
  progress.ooms = 4;
  progress.time_scale = 400;
  EXPECT_EQ(ProgressText(progress),
            "0 queued, 2 running, 1 done, 1 failed, 4 OOM, 1:02:05 simulated (x400)");
}

}  // namespace
}  // namespace carma::cli
