#include "core/queue/line_up.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "core/values/task.h"

namespace carma::core {
namespace {

constexpr Duration kHour{3'600'000};

Time At(double hours) {
  return base::FromMs(static_cast<std::int64_t>(hours * 3'600'000));
}

// A queue of tasks of several users; each task needs one GPU.
class LineUpTest : public testing::Test, public LineUp::Host {
 protected:
  const TaskRecord* Find(TaskId task) const override {
    const auto at = tasks_.find(task);
    return at == tasks_.end() ? nullptr : &at->second;
  }
  double WouldTake(const TaskRecord&) const override { return 1; }
  std::span<const Limits::BoundBy> BoundsOn(const TaskRecord&) const override { return {}; }
  bool IsLimited(const TaskRecord& task, std::span<const Limits::BoundBy>) const override {
    return limited_.contains(Number(task.id));
  }

  TaskRecord Task(std::uint64_t id, const std::string& user, const std::string& account = "") {
    const auto number = static_cast<std::uint32_t>(1 + uids_.size());
    TaskRecord task{.id = TaskId{id}};
    task.request.Edit().user = user;
    task.request.Edit().uid = uids_.try_emplace(user, number).first->second;
    if (!account.empty()) task.request.Edit().account = account;
    task.state = TaskState::kQueued;
    return task;
  }
  void Queues(const TaskRecord& task, Time now = At(0)) {
    queue_.Put(task, Place::kEligible, {}, now);
    tasks_[task.id] = task;
  }
  void Took(const TaskRecord& task, double gpu_hours) {
    shares_.Past({.uid = task.request->uid,
                  .account = task.request->account.value_or(""),
                  .rate = gpu_hours,
                  .from = At(-1),
                  .to = At(0)},
                 At(0));
  }
  std::string Order(QueueOrder order = QueueOrder::kFair, Time now = At(0)) {
    LineUp line(queue_.Main(), shares_, {order, 12 * kHour, !limited_.empty()}, now, *this);
    std::string text;
    for (auto next = line.Pop(); next; next = line.Pop())
      text += (text.empty() ? "" : " ") + std::to_string(Number(next->task));
    return text;
  }

  TaskRecords tasks_;
  Queue queue_;
  FairShare shares_{[] {
    FairRules rules;
    rules.half_life = 10'000 * kHour;
    rules.weights = {{"rich", 3}, {"@vision", 2}};
    return rules;
  }()};
  std::map<std::string, std::uint32_t> uids_;
  std::set<std::uint64_t> limited_;
};

TEST_F(LineUpTest, UsersTakeTurnsHoweverManyTasksTheySubmitted) {
  for (std::uint64_t id = 1; id <= 5; ++id) Queues(Task(id, "ada"));
  Queues(Task(6, "bob"));
  Queues(Task(7, "bob"));
  EXPECT_EQ(Order(QueueOrder::kFifo), "1 2 3 4 5 6 7");
  EXPECT_EQ(Order(), "1 6 2 7 3 4 5");
}

TEST_F(LineUpTest, TheUserWithLessUsageGoesFirst) {
  Queues(Task(1, "ada"));
  Queues(Task(2, "ada"));
  Queues(Task(3, "bob"));
  Queues(Task(4, "bob"));
  Took(Task(9, "ada"), 1.5);
  EXPECT_EQ(Order(), "3 4 1 2");
}

TEST_F(LineUpTest, RunningTasksCountAsIfTheyRanLonger) {
  Queues(Task(1, "ada"));
  Queues(Task(2, "bob"));
  Took(Task(9, "bob"), 0.5);
  shares_.Take(Task(8, "ada"), 1, At(0), At(0));
  EXPECT_EQ(Order(), "2 1");
}

TEST_F(LineUpTest, WeightsMultiplyTheFairShare) {
  for (std::uint64_t id = 1; id <= 4; ++id) Queues(Task(id, "ada"));
  for (std::uint64_t id = 5; id <= 8; ++id) Queues(Task(id, "rich"));
  EXPECT_EQ(Order(), "1 5 6 7 2 8 3 4");
}

TEST_F(LineUpTest, AccountsShareFirstThenTheirUsers) {
  Queues(Task(1, "ada", "nlp"));
  Queues(Task(2, "ada", "nlp"));
  Queues(Task(3, "bob", "nlp"));
  Queues(Task(4, "eve"));
  Queues(Task(5, "eve"));
  // Account nlp and user eve take turns. Within nlp, ada and bob take turns.
  EXPECT_EQ(Order(), "1 4 3 5 2");
}

TEST_F(LineUpTest, PrioritiesAndClassesGoBeforeShares) {
  queue_.UseClasses({{"interactive", 10}});
  TaskRecord urgent = Task(3, "ada");
  urgent.request.Edit().priority = 5;
  TaskRecord interactive = Task(4, "ada");
  interactive.request.Edit().qos = "interactive";
  Queues(Task(1, "ada"));
  Queues(Task(2, "bob"));
  Queues(urgent);
  Queues(interactive);
  Took(Task(9, "ada"), 100);
  EXPECT_EQ(Order(), "4 3 2 1");
  EXPECT_EQ(Order(QueueOrder::kFifo), "4 3 1 2");
}

TEST_F(LineUpTest, AStarvingUserGoesFirstOnce) {
  TaskRecord nice = Task(1, "ada");
  nice.request.Edit().priority = -5;
  Queues(nice, At(0));
  TaskRecord second = Task(2, "ada");
  second.request.Edit().priority = -5;
  Queues(second, At(5));
  Queues(Task(3, "bob"), At(11));
  Took(nice, 100);
  EXPECT_EQ(Order(QueueOrder::kFair, At(11.9)), "3 1 2");
  EXPECT_EQ(Order(QueueOrder::kFair, At(12)), "1 3 2");
  queue_.NoteStart(nice, At(12));
  queue_.Remove(nice.id);
  EXPECT_EQ(Order(QueueOrder::kFair, At(13)), "3 2");
  EXPECT_EQ(Order(QueueOrder::kFair, At(24)), "3 2");  // both users starve; bob has waited longer
}

TEST_F(LineUpTest, MovingATaskDoesNotRestartItsWaitingTime) {
  TaskRecord task = Task(1, "ada");
  Queues(task, At(0));
  Queues(Task(2, "bob"), At(1));
  Took(task, 100);
  Queues(task, At(11));
  EXPECT_EQ(Order(QueueOrder::kFair, At(12.5)), "1 2");
}

TEST_F(LineUpTest, ALimitClosesOnlyItsOwnLine) {
  for (std::uint64_t id = 1; id <= 3; ++id) Queues(Task(id, "ada"));
  Queues(Task(4, "bob"));
  limited_ = {2};
  EXPECT_EQ(Order(), "1 4");
  EXPECT_EQ(Order(QueueOrder::kFifo), "1 4");
}

TEST_F(LineUpTest, ANewTaskGoesBehindItsUsersOtherTasks) {
  for (std::uint64_t id = 1; id <= 4; ++id) Queues(Task(id, "ada"));
  Queues(Task(5, "bob"));
  const auto ahead = [&](const std::string& user) {
    const TaskRecord task = Task(999, user);
    LineUp line(queue_.Main(), shares_, {QueueOrder::kFair, 12 * kHour, false}, At(0), *this,
                LineUp::Newcomer{{HolderOf(task.request), ""}, user, queue_.KeyOf(task)});
    int count = 0;
    for (auto next = line.Pop(); next && next->task != task.id; next = line.Pop()) ++count;
    return count;
  };
  EXPECT_EQ(ahead("ada"), 5);
  EXPECT_EQ(ahead("bob"), 3);
  EXPECT_EQ(ahead("eve"), 2);
}

TEST_F(LineUpTest, ExcessIsUsageBeyondTheFairShare) {
  Queues(Task(1, "ada"));
  Queues(Task(2, "bob"));
  Took(Task(9, "ada"), 3);
  Took(Task(8, "bob"), 1);
  const LineUp line(queue_.Main(), shares_, {QueueOrder::kFair, 12 * kHour, false}, At(0), *this);
  EXPECT_NEAR(line.Excess(*line.Find({{"", 1}, ""})), 0.25, 1e-3);
  EXPECT_NEAR(line.Excess(*line.Find({{"", 2}, ""})), -0.25, 1e-3);
  EXPECT_EQ(line.Find({{"", 3}, ""}), std::nullopt);
}

}  // namespace
}  // namespace carma::core
