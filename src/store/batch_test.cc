#include "store/batch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "store/task_fixture.h"

namespace carma::store {
namespace {

constexpr core::TaskId kTask{1};

RecordRow Row(core::TaskState state, int attempt) {
  RecordRow row;
  row.record.id = kTask;
  row.record.state = state;
  row.record.attempt.Edit().number = attempt;
  return row;
}

struct BatchCase {
  const char* name;
  Batch batch;
  Durability urgency;
};

// A batch for each kind of row.
std::vector<BatchCase> Cases() {
  using core::TaskState;
  std::vector<BatchCase> cases;
  const auto add = [&](const char* name, Durability urgency) -> Batch& {
    return cases.emplace_back(name, Batch{}, urgency).batch;
  };
  add("a task waiting for its first start", Durability::kLater).records[kTask] =
      Row(TaskState::kQueued, 0);
  add("the sharing mode of a launching task", Durability::kLater).records[kTask] =
      Row(TaskState::kLaunching, 1);
  add("the memory peak of a running task", Durability::kLater).records[kTask] =
      Row(TaskState::kRunning, 1);
  add("a requeued task", Durability::kNow).records[kTask] = Row(TaskState::kQueued, 1);
  add("an end", Durability::kNow).records[kTask] = Row(TaskState::kSucceeded, 1);
  add("an event", Durability::kNow).events.emplace_back();
  add("GPU usage", Durability::kNow).usage.emplace_back();
  add("a wait of the head of the queue", Durability::kNow).line_waits.emplace_back();
  add("a forecast", Durability::kLater).forecasts.emplace_back();
  add("a measured peak", Durability::kNow).observations.emplace_back();
  add("an attempt's resource usage", Durability::kNow).attempts.emplace_back();
  add("a reset calibration", Durability::kNow).forget_calibration = true;
  add("a drain", Durability::kNow).drains[{"GPU-0", false}] = DrainReason{"broken fan"};
  add("its end", Durability::kNow).drains[{"GPU-0", true}] = std::nullopt;
  add("a closed server", Durability::kNow).closings.emplace_back(Closing{"reboot"});
  add("a reopened server", Durability::kNow).closings.emplace_back();
  add("a reservation", Durability::kNow).reservations.emplace_back();
  return cases;
}

TEST(Batch, WaitsForTheDiskUnlessARestartRecoversTheChange) {
  EXPECT_TRUE(Batch{}.Empty());
  for (const BatchCase& each : Cases()) {
    EXPECT_FALSE(each.batch.Empty()) << each.name;
    EXPECT_EQ(each.batch.Urgency(), each.urgency) << each.name;
  }
}

TEST(Batch, DoesNotWaitForTasksThatAPowerFailureEnds) {
  Batch batch;
  batch.records[kTask] = Row(core::TaskState::kRunning, 1);
  batch.events.push_back({.kind = EventKind::kState, .task = kTask, .what = "running"});
  batch.attempts.push_back({.task = kTask, .number = 1});
  batch.observations.push_back({.task = kTask});
  EXPECT_EQ(batch.Urgency(), Durability::kNow);
  EXPECT_EQ(batch.Urgency({kTask}), Durability::kLater);
  Batch beside = batch;
  beside.records[core::TaskId{2}] = Row(core::TaskState::kSucceeded, 1);
  beside.records[core::TaskId{2}].record.id = core::TaskId{2};
  EXPECT_EQ(beside.Urgency({kTask}), Durability::kNow) << "another task's end";
  beside = batch;
  beside.events.push_back({.kind = EventKind::kDrain, .what = "drain"});
  EXPECT_EQ(beside.Urgency({kTask}), Durability::kNow) << "a server event";
  beside = batch;
  beside.job_returns.push_back({kTask, "{}"});
  EXPECT_EQ(beside.Urgency({kTask}), Durability::kNow) << "a job that will be requeued";
}

class ApplyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/carma-batch-XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    store_ = Store::Open(folder_).value();
    ASSERT_TRUE(store_->Begin());
    ASSERT_TRUE(store_->PutTask(task_));
    ASSERT_TRUE(store_->Commit());
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string folder_;
  StoredTask task_ = FullTask(1);
  std::unique_ptr<Store> store_;
};

TEST_F(ApplyTest, StoresEveryKindOfRow) {
  Batch batch;
  core::TaskRecord record = task_.record;
  record.peak_mib = 4'321;
  batch.records[kTask] = {record, task_.gpu_uuids};
  batch.events.push_back({.kind = EventKind::kState, .task = kTask, .what = "running"});
  batch.usage.push_back({.from = base::FromMs(1), .to = base::FromMs(2), .gpu_uuid = "GPU-0"});
  batch.forecasts.push_back({.task = kTask, .model = "fingerprint"});
  batch.observations.push_back({.task = kTask, .signature = "s", .formula = task::FormulaSplit{}});
  batch.drains[{"GPU-0", false}] = DrainReason{"broken fan", base::FromMs(1'700'000'000'000)};
  batch.closings = {std::nullopt,
                    Closing{"reboot", base::FromMs(1'700'000'090'000), "the third start"}};
  batch.reservations = {{core::ReservationId{3}, "ada", "{}"},
                        {core::ReservationId{4}, "eve", std::nullopt}};
  batch.attempts.push_back({.task = kTask, .number = 2, .gpu_uuids = {"GPU-0"}});
  ASSERT_TRUE(store_->Apply(batch, Durability::kNow));
  EXPECT_EQ(store_->Attempts(core::Time{}).value(), batch.attempts);
  EXPECT_EQ(store_->Get(kTask)->record, record);
  EXPECT_EQ(store_->Events(kTask, {}, 10)->size(), 1U);
  EXPECT_EQ(store_->Usage(base::FromMs(0), base::FromMs(9))->size(), 1U);
  EXPECT_EQ(store_->ForecastOf(kTask).value()->model, "fingerprint");
  EXPECT_EQ(store_->Drains().value(),
            (std::vector<Drain>{{"GPU-0", "broken fan", false, base::FromMs(1'700'000'000'000)}}));
  EXPECT_EQ(store_->ServerClosing().value(), batch.closings.back());
  EXPECT_EQ(store_->ReservationBook().value(), batch.reservations);
  ASSERT_EQ(store_->Observations()->size(), 1U);
  EXPECT_TRUE(store_->Observations()->front().formula);

  Batch undone;
  undone.forget_calibration = true;
  undone.drains[{"GPU-0", false}] = std::nullopt;
  undone.closings = {std::nullopt};
  ASSERT_TRUE(store_->Apply(undone, Durability::kNow));
  EXPECT_TRUE(store_->Drains()->empty());
  EXPECT_EQ(store_->ServerClosing().value(), std::nullopt);
  EXPECT_FALSE(store_->Observations()->front().formula);
}

TEST_F(ApplyTest, AFailingRowRollsBackTheWholeBatch) {
  Batch batch;
  batch.events.push_back({.kind = EventKind::kState, .task = kTask, .what = "running"});
  batch.descriptions.push_back({core::TaskId{99}, "train", "{}"});
  EXPECT_FALSE(store_->Apply(batch, Durability::kNow)) << "no such task";
  EXPECT_TRUE(store_->Events(kTask, {}, 10)->empty());
  ASSERT_TRUE(store_->Apply(Batch{}, Durability::kNow)) << "the next batch works again";
}

TEST_F(ApplyTest, SkipsRecordsOfPrunedTasks) {
  Batch batch;
  batch.events.push_back({.kind = EventKind::kState, .task = kTask, .what = "running"});
  batch.records[core::TaskId{99}] = {};
  EXPECT_TRUE(store_->Apply(batch, Durability::kNow)) << "otherwise no batch could be stored";
  EXPECT_EQ(store_->Events(kTask, {}, 10)->size(), 1U);
}

}  // namespace
}  // namespace carma::store
