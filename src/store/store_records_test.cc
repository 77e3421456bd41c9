// Tests the rows of all tables except task: events, GPU usage, drains, attempts, forecasts,
// observations and notices.
#include "store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cmath>
#include <limits>

#include "store/store_fixture.h"

namespace carma::store {
namespace {

using namespace std::string_literals;

using core::TaskId;
using ::testing::ElementsAre;

TEST_F(StoreTest, EventsKeepTheirOrderAndNumbers) {
  StoredEvent submitted{.when = base::FromMs(5),
                        .kind = EventKind::kSubmitted,
                        .task = TaskId{1},
                        .gpu_uuid = "",
                        .what = "submitted",
                        .text = "by ada"};
  StoredEvent drained{.when = base::FromMs(6),
                      .kind = EventKind::kDrain,
                      .gpu_uuid = "GPU-1",
                      .what = "drain",
                      .text = "fan"};
  Batch([&] {
    ASSERT_TRUE(store_->AddEvent(submitted));
    ASSERT_TRUE(store_->AddEvent(drained));
    submitted.task = TaskId{2};
    ASSERT_TRUE(store_->AddEvent(submitted));
  });
  const std::vector<StoredEvent> all = *store_->Events(std::nullopt, 0, 10);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].sequence, 2);
  EXPECT_EQ(all[1].kind, EventKind::kDrain);
  EXPECT_EQ(all[1].task, std::nullopt);
  EXPECT_EQ(all[1].gpu_uuid, "GPU-1");
  EXPECT_EQ(all[1].text, "fan");
  EXPECT_EQ(all[1].when, base::FromMs(6));
  const std::vector<StoredEvent> of_two = *store_->Events(TaskId{2}, 0, 10);
  ASSERT_EQ(of_two.size(), 1U);
  EXPECT_EQ(of_two[0].sequence, 3);
  EXPECT_EQ(store_->Events(std::nullopt, 2, 10)->size(), 1U);
  EXPECT_EQ(store_->Events(std::nullopt, 0, 2)->size(), 2U);
  const std::vector<StoredEvent> newest = *store_->Events(std::nullopt, std::nullopt, 2);
  ASSERT_EQ(newest.size(), 2U);
  EXPECT_EQ(newest[0].sequence, all[all.size() - 2].sequence);
  EXPECT_EQ(newest[1].sequence, all.back().sequence);
}

TEST_F(StoreTest, UsageKeepsAbsentValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Batch([&] {
    ASSERT_TRUE(store_->AddUsage({base::FromMs(0), base::FromMs(1000), "GPU-1", 0.5, 1024.5, 53.8,
                                  2, 0.75, 2048.25, 0.125}));
    ASSERT_TRUE(
        store_->AddUsage({base::FromMs(1000), base::FromMs(2000), "GPU-1", nan, 0, nan, 0}));
  });
  const std::vector<GpuUsage> all = *store_->Usage(base::FromMs(0), base::FromMs(2000));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].sm_active, 0.5);
  EXPECT_EQ(all[0].used_mib, 1024.5);
  EXPECT_EQ(all[0].energy_j, 53.8);
  EXPECT_EQ(all[0].tasks, 2);
  EXPECT_EQ(all[0].sm_peak, 0.75);
  EXPECT_EQ(all[0].used_peak_mib, 2048.25);
  EXPECT_EQ(all[0].dram_active, 0.125);
  for (const double unknown : {all[1].sm_active, all[1].energy_j, all[1].sm_peak,
                               all[1].used_peak_mib, all[1].dram_active}) {
    EXPECT_TRUE(std::isnan(unknown));
  }
  EXPECT_EQ(store_->Usage(base::FromMs(1000), base::FromMs(1500))->size(), 1U);
}

TEST_F(StoreTest, DrainsAreKeptUntilDropped) {
  Batch([&] {
    ASSERT_TRUE(store_->PutDrain({"GPU-2", "fan"}));
    ASSERT_TRUE(store_->PutDrain({"GPU-1", "old"}));
    ASSERT_TRUE(store_->PutDrain({"GPU-1", "new"}));
    ASSERT_TRUE(store_->PutDrain({"GPU-1", "Xid 79", true}));
  });
  Reopen();
  EXPECT_THAT(*store_->Drains(), ElementsAre(Drain{"GPU-1", "new"}, Drain{"GPU-1", "Xid 79", true},
                                             Drain{"GPU-2", "fan"}));
  Batch([&] { ASSERT_TRUE(store_->DropDrain("GPU-1", false)); });
  EXPECT_THAT(*store_->Drains(),
              ElementsAre(Drain{"GPU-1", "Xid 79", true}, Drain{"GPU-2", "fan"}));
}

EndedAttempt AttemptAt(std::uint64_t task, int number, core::Time ended) {
  return {.task = TaskId{task},
          .number = number,
          .taken = {.uid = 1000,
                    .user = "ada",
                    .account = "vision",
                    .qos = "normal",
                    .gpus = 2,
                    .rate = 1.25,
                    .from = ended - core::Duration(90'000),
                    .to = ended},
          .waited = core::Duration(5'000),
          .started = ended - core::Duration(89'000),
          .promised_mib = 12'000,
          .peak_mib = 9'000,
          .exit = core::ExitKind::kOutOfMemory,
          .gpu_uuids = {"GPU-1", "GPU-2"}};
}

TEST_F(StoreTest, StoresAttemptsOnceAndKeepsThemLongerThanTasks) {
  const core::Time now = *FinishedTask(3).record.ended;
  const EndedAttempt second = AttemptAt(1, 2, now);
  EndedAttempt never = AttemptAt(1, 1, now - core::Duration(500'000));
  never.started.reset();
  never.exit.reset();
  Batch([&] {
    ASSERT_TRUE(store_->PutTask(FinishedTask(1)));
    ASSERT_TRUE(store_->PutAttempt(second));
    ASSERT_TRUE(store_->PutAttempt(second));
    ASSERT_TRUE(store_->PutAttempt(never));
    ASSERT_TRUE(store_->PutAttempt(AttemptAt(9, 1, now - kAttemptsKept - core::Duration(2))));
  });
  Reopen();
  EXPECT_THAT(*store_->Attempts(now - core::Duration(600'000)), ElementsAre(never, second));
  EXPECT_THAT(*store_->Attempts(now), ElementsAre(second));
  EXPECT_THAT(*store_->Attempts(now - core::Duration(600'000), now), ElementsAre(never));
  Batch([&] { EXPECT_EQ(store_->Prune(now, 100), 1); });
  EXPECT_THAT(*store_->Attempts(core::Time{}), ElementsAre(never, second));
}

TEST_F(StoreTest, PruneDoesNotReadTheRowsThatItKeeps) {
  static sqlite3* db = nullptr;  // the connection that was opened last, which is the store's
  const auto opened = [](sqlite3* connection, char**, const sqlite3_api_routines*) {
    db = connection;
    return SQLITE_OK;
  };
  const auto hook = reinterpret_cast<void (*)()>(+opened);
  sqlite3_auto_extension(hook);
  Reopen();
  sqlite3_cancel_auto_extension(hook);
  const auto add = [&](std::uint64_t first, std::uint64_t last) {
    Batch([&] {
      for (std::uint64_t id = first; id <= last; ++id) {
        ASSERT_TRUE(store_->PutTask(FinishedTask(id)));
        ASSERT_TRUE(store_->AddEvent({.when = base::FromMs(1'000), .kind = EventKind::kDrain}));
      }
    });
  };
  int steps = 0;
  const auto prune = [&] {
    steps = 0;
    const auto count = [](void* counter) { return ++*static_cast<int*>(counter), 0; };
    Batch([&] {
      sqlite3_progress_handler(db, 1, count, &steps);
      EXPECT_EQ(store_->Prune(base::FromMs(1'000), 100), 0);
      sqlite3_progress_handler(db, 0, nullptr, nullptr);
    });
    return steps;
  };
  add(1, 5);
  prune();  // creates a temporary table
  const int before = prune();
  EXPECT_GT(before, 0);
  add(6, 500);
  EXPECT_LT(prune(), 2 * before);
}

// Every field differs from its default.
task::Observation FullObservation(std::uint64_t task, const std::string& signature) {
  task::Observation seen;
  seen.task = TaskId{task};
  seen.when = base::FromMs(1'700'000'000'001);
  seen.uid = 1000;
  seen.signature = signature;
  seen.kin = "k";
  seen.relation = "r";
  seen.batch = 32;
  seen.length = 2048;
  seen.allocated_mib = 6'500;
  seen.gpu_type = "NVIDIA A100";
  seen.method = "structural";
  seen.predicted_mib = 8'000;
  seen.promised_mib = 9'000;
  seen.measured_mib = 8'200;
  seen.ran_out = true;
  seen.formula = task::FormulaSplit{1'700, 6'300};
  seen.sm_active = 0.5;
  seen.cpus = 7.5;
  seen.others_share = 0.625;
  seen.alone = core::Duration(90'500);
  return seen;
}

TEST_F(StoreTest, ForecastsStayWithTheirTask) {
  Put(FinishedTask(1));
  const Forecast forecast{TaskId{1}, "0123", task::FormulaSplit{1'700, 6'300}, {"assumed Adam"}};
  Batch([&] {
    ASSERT_TRUE(store_->PutForecast({TaskId{1}, "", std::nullopt, {"not yet"}}));
    ASSERT_TRUE(store_->PutForecast(forecast));
  });
  Reopen();
  EXPECT_EQ(store_->ForecastOf(TaskId{1}).value(), forecast);
  EXPECT_EQ(store_->ForecastOf(TaskId{2}).value(), std::nullopt);
  Batch([&] { ASSERT_TRUE(store_->Prune(base::FromMs(9'000'000'000'000), 100)); });
  EXPECT_EQ(store_->ForecastOf(TaskId{1}).value(), std::nullopt);
}

TEST_F(StoreTest, ObservationsOutliveTheirTasks) {
  Put(FinishedTask(1));
  const task::Observation full = FullObservation(1, "s");
  task::Observation bare;
  bare.task = TaskId{1};
  bare.signature = "t";
  Batch([&] {
    ASSERT_TRUE(store_->AddObservation(full));
    ASSERT_TRUE(store_->AddObservation(bare));
    ASSERT_TRUE(store_->Prune(base::FromMs(9'000'000'000'000), 100));
  });
  Reopen();
  EXPECT_THAT(store_->Observations().value(), ElementsAre(full, bare));
  Batch([&] { ASSERT_TRUE(store_->ForgetCalibration()); });
  task::Observation forgotten = full;
  forgotten.formula.reset();
  EXPECT_THAT(store_->Observations().value(), ElementsAre(forgotten, bare));
}

TEST_F(StoreTest, ObservationsAreBounded) {
  Batch([&] {
    ASSERT_TRUE(store_->AddObservation(FullObservation(1, "rare")));
    for (std::uint64_t i = 2; i < 50; ++i)
      ASSERT_TRUE(store_->AddObservation(FullObservation(i, "often")));
  });
  const std::vector<task::Observation> kept = store_->Observations().value();
  ASSERT_EQ(kept.size(), task::kRunsPerSignature + 1U);
  EXPECT_EQ(kept[0].signature, "rare");
  EXPECT_EQ(kept.back().task, TaskId{49});
  EXPECT_EQ(kept[1].task, TaskId{50 - task::kRunsPerSignature});
}

TEST_F(StoreTest, KeepsNoticesUntilTheyAreSent) {
  Put(FullTask(3));
  Notice first{.task = TaskId{3},
               .uid = 7,
               .event = "end",
               .target = "me",
               .message = "{}",
               .made = base::FromMs(1'000),
               .next = base::FromMs(5'000)};
  Notice second = first;
  second.task.reset();
  second.event = "health";
  second.next = base::FromMs(2'000);
  Batch([&] {
    ASSERT_TRUE(store_->AddNotice(first));
    ASSERT_TRUE(store_->AddNotice(second));
  });
  Reopen();
  auto waiting = store_->WaitingNotices(10);
  ASSERT_TRUE(waiting) << waiting.error().message;
  ASSERT_EQ(waiting->size(), 2U);
  first.id = 1;
  second.id = 2;
  EXPECT_THAT(*waiting, ElementsAre(second, first));
  EXPECT_EQ(store_->CountNotices(7, base::FromMs(1'000)), 2);
  EXPECT_EQ(store_->CountNotices(7, base::FromMs(1'001)), 0);
  first.state = NoticeState::kSent;
  first.tries = 2;
  first.text = "once it did not answer";
  Batch([&] { ASSERT_TRUE(store_->PutNoticeResult(first)); });
  EXPECT_THAT(*store_->WaitingNotices(10), ElementsAre(second));
  EXPECT_THAT(*store_->NoticesOf(TaskId{3}), ElementsAre(first));
  second.state = NoticeState::kDropped;
  Batch([&] { ASSERT_TRUE(store_->PutNoticeResult(second)); });
  EXPECT_EQ(store_->CountNotices(7, base::FromMs(0)), 1);
  Batch([&] { ASSERT_TRUE(store_->Prune(base::FromMs(INT64_MAX), 10)); });
  EXPECT_THAT(*store_->NoticesOf(TaskId{3}), ElementsAre(first)) << "the task has not ended";
}

}  // namespace
}  // namespace carma::store
