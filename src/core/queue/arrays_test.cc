// Tests arrays with a limit ("%n" in `carma submit --array`).
#include "core/queue/arrays.h"

#include <gtest/gtest.h>

#include "core/scheduler/scheduler.h"

namespace carma::core {
namespace {

class ArrayLimit : public ::testing::Test {
 protected:
  ArrayLimit() : core_(PolicyConfig{}) {
    core_.Handle(now_, GpusDiscovered{std::vector<GpuInfo>(8, {"", "A100", 40'960, 424})});
    for (std::uint32_t i = 0; i < 8; ++i) {
      core_.Handle(now_,
                   GpuSampled{GpuIndex{i}, {.taken = now_, .window_from = now_, .sm_active = 0.0}});
    }
  }
  void Submit(std::uint64_t id, int limit) {
    TaskRequest request;
    request.array = TaskId{1};
    request.array_limit = limit;
    core_.Handle(now_, TaskSubmitted{TaskId{id}, request});
    core_.Handle(now_, EstimateReady{TaskId{id}, Estimate{1'000, "given"}});
  }
  std::vector<std::uint64_t> Running() const {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, task] : core_.Tasks()) {
      if (HoldsGpus(task.state)) ids.push_back(Number(id));
    }
    return ids;
  }
  void Handle(const Event& event) {
    core_.Handle(now_, event);
    EXPECT_EQ(core_.CheckBooks(), std::nullopt) << *core_.CheckBooks();
  }

  Time now_ = base::FromMs(1000);
  Scheduler core_;
};

TEST_F(ArrayLimit, RunsNoMoreThanTheLimitInOrder) {
  for (std::uint64_t id = 1; id <= 5; ++id) Submit(id, 2);
  EXPECT_EQ(Running(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(core_.ReasonFor(TaskId{3}, now_).code, ReasonCode::kArrayLimit);
  Handle(TaskExited{TaskId{1}, 1, {}});
  EXPECT_EQ(Running(), (std::vector<std::uint64_t>{2, 3}));
  Handle(CancelRequested{TaskId{4}, "ada"});
  Handle(TaskExited{TaskId{2}, 1, {}});
  EXPECT_EQ(Running(), (std::vector<std::uint64_t>{3, 5}));
}

TEST_F(ArrayLimit, ATaskThatCannotContinueGivesUpItsPlace) {
  for (std::uint64_t id = 1; id <= 3; ++id) Submit(id, 1);
  Handle(TaskExited{TaskId{1}, 1, {.kind = ExitKind::kOutOfMemory, .code = 1}});
  EXPECT_EQ(Running(), (std::vector<std::uint64_t>{2})) << "task 1 waits out its back-off";
  Handle(HoldRequested{TaskId{3}});
  Handle(TaskExited{TaskId{2}, 1, {}});
  EXPECT_TRUE(Running().empty());
  Handle(ReleaseRequested{TaskId{3}});
  EXPECT_EQ(Running(), (std::vector<std::uint64_t>{3}));
}

TEST_F(ArrayLimit, TasksThatLeaveTogetherGiveUpAllTheirPlaces) {
  for (std::uint64_t id = 1; id <= 9; ++id) Submit(id, 2);
  const auto cancel = [](std::uint64_t id) { return CancelRequested{TaskId{id}, "ada"}; };
  core_.HandleAll(now_, std::vector<Event>{TaskExited{TaskId{1}, 1, {}}, cancel(3)});
  EXPECT_EQ(Running(), (std::vector<std::uint64_t>{2, 4}));
  core_.HandleAll(now_, std::vector<Event>{TaskExited{TaskId{2}, 1, {}},
                                           TaskExited{TaskId{4}, 1, {}}, cancel(5), cancel(7)});
  EXPECT_EQ(Running(), (std::vector<std::uint64_t>{6, 8}));
  EXPECT_EQ(core_.CheckBooks(), std::nullopt) << *core_.CheckBooks();
}

TEST_F(ArrayLimit, RestoredRunningTasksCount) {
  TaskRecord running;
  running.id = TaskId{1};
  running.request.Edit().array = TaskId{1};
  running.request.Edit().array_limit = 1;
  running.state = TaskState::kRunning;
  running.attempt.Edit().number = 1;
  running.attempt.Edit().placement = {{GpuIndex{0}, 1'000}};
  Handle(TaskRestored{running});
  Submit(2, 1);
  EXPECT_EQ(Running(), (std::vector<std::uint64_t>{1}));
}

TaskRecord Member(std::uint64_t id, int limit) {
  TaskRecord task;
  task.id = TaskId{id};
  task.request.Edit().array = TaskId{1};
  task.request.Edit().array_limit = limit;
  return task;
}

TEST(Arrays, AFreedPlaceGoesToTheNextTaskInOrderOfSubmission) {
  Arrays arrays;
  EXPECT_TRUE(arrays.Admit(Member(1, 1)));
  EXPECT_TRUE(arrays.Admit(Member(1, 1))) << "it already has a place";
  EXPECT_FALSE(arrays.Admit(Member(3, 1)));
  EXPECT_FALSE(arrays.Admit(Member(2, 1)));
  arrays.Leave(Member(3, 1));
  EXPECT_EQ(arrays.Next(Member(3, 1)), std::nullopt) << "it had no place";
  arrays.Leave(Member(1, 1));
  EXPECT_EQ(arrays.Next(Member(1, 1)), TaskId{2});
  EXPECT_TRUE(arrays.Admit(Member(2, 1)));
  arrays.Leave(Member(2, 1));
  EXPECT_EQ(arrays.Next(Member(2, 1)), std::nullopt);
  EXPECT_TRUE(arrays.all().empty());
}

TEST(Arrays, ATaskWithoutLimitNeedsNoPlace) {
  Arrays arrays;
  EXPECT_TRUE(arrays.Admit(Member(1, 0)));
  EXPECT_TRUE(arrays.Admit(TaskRecord{}));
  arrays.Leave(Member(1, 0));
  EXPECT_EQ(arrays.Next(Member(1, 0)), std::nullopt);
  EXPECT_TRUE(arrays.all().empty());
}

}  // namespace
}  // namespace carma::core
