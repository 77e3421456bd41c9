#include "store/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "store/batch.h"

namespace carma::store {
namespace {

using ::testing::ElementsAre;

class HistoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-history-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    auto store = Store::Open(dir_);
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }
  // Stores task `id`, which was submitted `id` seconds after the epoch, ran, and ended.
  void Put(std::uint64_t id) {
    ASSERT_TRUE(store_->Begin());
    StoredTask task;
    task.record.id = core::TaskId{id};
    task.record.submitted = base::FromMs(static_cast<std::int64_t>(id) * 1'000);
    task.record.state = core::TaskState::kSucceeded;
    task.name = "task " + std::to_string(id);
    task.spec_json = "{}";
    ASSERT_TRUE(store_->PutTask(task));
    for (const char* state : {"running", "succeeded"}) {
      StoredEvent event;
      event.kind = EventKind::kState;
      event.task = core::TaskId{id};
      event.what = state;
      ASSERT_TRUE(store_->AddEvent(event));
    }
    ASSERT_TRUE(store_->Commit());
  }
  std::unique_ptr<History> Open() {
    auto history = History::Open(dir_);
    EXPECT_TRUE(history) << history.error().message;
    return std::move(*history);
  }
  static std::vector<std::uint64_t> Ids(History& history, const History::Span& span) {
    std::vector<std::uint64_t> ids;
    EXPECT_TRUE(history.Tasks(span, [&](const StoredTask& task) {
      ids.push_back(core::Number(task.record.id));
      return true;
    }));
    return ids;
  }

  std::string dir_;
  std::unique_ptr<Store> store_;
};

TEST_F(HistoryTest, GivesTheTasksOfASpanById) {
  for (std::uint64_t id = 1; id <= 5; ++id) Put(id);
  const auto history = Open();
  struct Case {
    const char* name;
    History::Span span;
    std::vector<std::uint64_t> ids;
  };
  const Case cases[] = {
      {"all", {}, {1, 2, 3, 4, 5}},
      {"both ends are inclusive",
       {.submitted_from = base::FromMs(2'000), .submitted_to = base::FromMs(4'000)},
       {2, 3, 4}},
      {"the newest", {.newest = 2}, {4, 5}},
      {"the newest of a time span", {.submitted_to = base::FromMs(3'000), .newest = 2}, {2, 3}},
      {"none", {.submitted_from = base::FromMs(9'000)}, {}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Ids(*history, c.span), c.ids) << c.name;
    EXPECT_EQ(history->CountTasks(c.span), static_cast<std::int64_t>(c.ids.size())) << c.name;
  }
}

TEST_F(HistoryTest, IsAConsistentViewThatDoesNotBlockTheWriter) {
  Put(1);
  const auto history = Open();
  Put(2);
  EXPECT_THAT(Ids(*history, {}), ElementsAre(1));
  EXPECT_THAT(Ids(*Open(), {}), ElementsAre(1, 2));
}

TEST_F(HistoryTest, GivesEventsByTaskAndStopsOnRequest) {
  Put(1);
  Put(2);
  Put(3);
  const auto history = Open();
  std::vector<std::string> told;
  ASSERT_TRUE(history->Events(core::TaskId{2}, core::TaskId{3}, [&](const StoredEvent& event) {
    told.push_back(std::to_string(core::Number(*event.task)) + " " + event.what);
    return told.size() < 3;
  }));
  EXPECT_THAT(told, ElementsAre("2 running", "2 succeeded", "3 running"));
}

TEST_F(HistoryTest, GivesUsageThatOverlapsASpan) {
  ASSERT_TRUE(store_->Begin());
  for (int minute = 0; minute < 5; ++minute) {
    const core::Time from = base::FromMs(minute * 60'000);
    ASSERT_TRUE(store_->AddUsage(
        {from, from + base::Duration(60'000), "A", std::nan(""), 10.0, 5, minute, 0.25 * minute}));
  }
  ASSERT_TRUE(store_->Commit());
  std::vector<int> residents;
  ASSERT_TRUE(Open()->Usage(base::FromMs(60'000), base::FromMs(150'000), [&](const GpuUsage& row) {
    EXPECT_TRUE(std::isnan(row.sm_active));
    EXPECT_EQ(row.sm_peak, 0.25 * row.tasks);
    EXPECT_TRUE(std::isnan(row.dram_active));
    residents.push_back(row.tasks);
    return true;
  }));
  EXPECT_THAT(residents, ElementsAre(1, 2));
}

TEST_F(HistoryTest, ReadsTheWaitsOfTheQueueHead) {
  std::vector<LineWait> rows;
  for (int minute = 0; minute < 4; ++minute) {
    const core::Time from = base::FromMs(minute * 60'000);
    rows.push_back({from, from + base::Duration(60'000), core::ReasonCode::kGpuMemory,
                    base::Duration(1'000 * minute)});
  }
  Batch batch;
  batch.line_waits = rows;
  ASSERT_TRUE(store_->Apply(batch, Durability::kNow));
  std::vector<LineWait> told;
  ASSERT_TRUE(
      Open()->LineWaits(base::FromMs(60'000), base::FromMs(150'000), [&](const LineWait& row) {
        told.push_back(row);
        return true;
      }));
  EXPECT_THAT(told, ElementsAre(rows[1], rows[2]));
}

TEST_F(HistoryTest, IsReadOnAnotherThread) {
  for (std::uint64_t id = 1; id <= 50; ++id) Put(id);
  std::vector<std::uint64_t> seen;
  std::thread reader([&] { seen = Ids(*Open(), {}); });
  for (std::uint64_t id = 51; id <= 100; ++id) Put(id);
  reader.join();
  EXPECT_GE(seen.size(), 50u);
}

TEST_F(HistoryTest, FailsWithoutADatabase) {
  EXPECT_FALSE(History::Open(dir_ + "/nowhere"));
}

}  // namespace
}  // namespace carma::store
