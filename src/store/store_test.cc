#include "store/store.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <limits>

#include "base/file.h"
#include "store/store_fixture.h"

namespace carma::store {
namespace {

using namespace std::string_literals;

using core::TaskId;
using core::TaskState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

void ExpectEqual(const StoredTask& got, const StoredTask& wanted) {
  EXPECT_EQ(got.record, wanted.record);
  EXPECT_EQ(got.gid, wanted.gid);
  EXPECT_EQ(got.user, wanted.user);
  EXPECT_EQ(got.name, wanted.name);
  EXPECT_EQ(got.spec_json, wanted.spec_json);
  EXPECT_EQ(got.gpu_uuids, wanted.gpu_uuids);
  EXPECT_EQ(got.stdout_path, wanted.stdout_path);
  EXPECT_EQ(got.stderr_path, wanted.stderr_path);
}

TEST_F(StoreTest, RefusesToWriteToARemovedDatabase) {
  for (const char* name : {"/carma.db", "/carma.db-wal"}) {
    ASSERT_TRUE(store_->InPlace());
    std::filesystem::rename(dir_ + name, dir_ + "/away");
    EXPECT_EQ(store_->Begin().error().code, ErrorCode::kIo);
    EXPECT_THAT(store_->InPlace().error().message, HasSubstr(std::string(name) + " was removed"));
    std::filesystem::copy(dir_ + "/away", dir_ + name);
    EXPECT_THAT(store_->Begin().error().message, HasSubstr(std::string(name) + " was replaced"));
    std::filesystem::rename(dir_ + "/away", dir_ + name);
    Put(NewTask(7));
  }
}

TEST_F(StoreTest, RoundTripsEveryField) {
  Put(FullTask(7));
  Put(NewTask(8));
  StoredTask bare;
  bare.record.id = TaskId{9};
  Put(bare);
  Reopen();
  ExpectEqual(*store_->Get(TaskId{7}), FullTask(7));
  ExpectEqual(*store_->Get(TaskId{8}), NewTask(8));
  ExpectEqual(*store_->Get(TaskId{9}), bare);
}

TEST_F(StoreTest, RoundTripsEveryEnumerator) {
  std::vector<StoredTask> tasks;
  const auto add = [&](auto change) {
    tasks.push_back(NewTask(tasks.size() + 1, 2));
    change(tasks.back().record);
  };
  for (int i = 0; i < core::kTaskStateCount; ++i)
    add([&](core::TaskRecord& r) { r.state = static_cast<TaskState>(i); });
  for (int i = 0; i <= static_cast<int>(core::ReasonCode::kReserved); ++i)
    add([&](core::TaskRecord& r) { r.reason.code = static_cast<core::ReasonCode>(i); });
  for (int i = 0; i <= static_cast<int>(core::ExitKind::kDeviceFault); ++i)
    add([&](core::TaskRecord& r) { r.exit.Edit().kind = static_cast<core::ExitKind>(i); });
  for (int i = 0; i <= static_cast<int>(core::StopCause::kDrained); ++i)
    add([&](core::TaskRecord& r) { r.attempt.Edit().stopping = static_cast<core::StopCause>(i); });
  for (int i = 0; i <= static_cast<int>(core::SharingMethod::kMig); ++i)
    add([&](core::TaskRecord& r) {
      r.attempt.Edit().sharing.method = static_cast<core::SharingMethod>(i);
    });
  Batch([&] {
    for (const StoredTask& task : tasks) ASSERT_TRUE(store_->PutTask(task));
  });
  for (const StoredTask& task : tasks) ExpectEqual(*store_->Get(task.record.id), task);
}

TEST_F(StoreTest, RoundTripsAnyBytesAndNumbers) {
  StoredTask task = NewTask(1);
  task.record.reason.text = "\0 zero and \xff\xfe bad UTF-8"s;
  task.record.request.Edit().priority = std::numeric_limits<std::int64_t>::min();
  task.record.peak_mib = std::numeric_limits<std::int64_t>::max();
  task.record.exit.Edit().code = std::numeric_limits<int>::min();
  task.spec_json = std::string(1 << 20, 'y');
  Put(task);
  ExpectEqual(*store_->Get(TaskId{1}), task);
}

TEST_F(StoreTest, PutRecordChangesTheRecordAndLeavesTheDescription) {
  StoredTask task = NewTask(3);
  Put(task);
  task.record = FullTask(3).record;
  task.gpu_uuids = {"GPU-9"};
  Batch([&] { ASSERT_TRUE(store_->PutRecord(task.record, task.gpu_uuids)); });
  ExpectEqual(*store_->Get(TaskId{3}), task);
}

TEST_F(StoreTest, PutRecordRefusesAnUnknownTaskAndTheBatchContinues) {
  Batch([&] {
    const auto put = store_->PutRecord(FullTask(99).record, {});
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, ErrorCode::kNotFound);
    ASSERT_TRUE(store_->PutTask(NewTask(1)));
  });
  EXPECT_TRUE(store_->Get(TaskId{1}));
}

TEST_F(StoreTest, PutTaskReplacesTheWholeTask) {
  Put(NewTask(3));
  Put(FullTask(3));
  ExpectEqual(*store_->Get(TaskId{3}), FullTask(3));
  EXPECT_THAT(Ids({}), ElementsAre(3));
}

TEST_F(StoreTest, ATaskWithoutAProperIdIsRefused) {
  Batch([&] {
    EXPECT_EQ(store_->PutTask(NewTask(0)).error().code, ErrorCode::kInvalid);
    StoredTask task = NewTask(1);
    task.record.id = TaskId{std::numeric_limits<std::uint64_t>::max()};
    EXPECT_EQ(store_->PutTask(task).error().code, ErrorCode::kInvalid);
  });
}

TEST_F(StoreTest, NeverReusesIds) {
  EXPECT_EQ(store_->NextId(), TaskId{1});
  Put(FinishedTask(41));
  EXPECT_EQ(store_->NextId(), TaskId{42});
  ASSERT_TRUE(store_->Begin());
  ASSERT_TRUE(store_->PutTask(NewTask(50)));
  EXPECT_EQ(store_->NextId(), TaskId{51});
  store_->Rollback();
  EXPECT_EQ(store_->NextId(), TaskId{42});
  Batch([&] { EXPECT_EQ(store_->Prune(base::FromMs(2'000'000'000'000), 100), 1); });
  Reopen();
  EXPECT_EQ(store_->NextId(), TaskId{42});
}

TEST_F(StoreTest, ARolledBackBatchLeavesNothing) {
  ASSERT_TRUE(store_->Begin());
  ASSERT_TRUE(store_->PutTask(NewTask(1)));
  ASSERT_TRUE(store_->AddEvent({.kind = EventKind::kDrain, .what = "start"}));
  ASSERT_TRUE(store_->PutDrain({"GPU-1", "fan"}));
  store_->Rollback();
  EXPECT_THAT(Ids({}), IsEmpty());
  EXPECT_THAT(*store_->Events(std::nullopt, 0, 10), IsEmpty());
  EXPECT_THAT(*store_->Drains(), IsEmpty());
  store_->Rollback();  // no effect without a batch
}

TEST_F(StoreTest, UnfinishedGivesEveryTaskThatIsNotFinalById) {
  Batch([&] {
    for (int i = core::kTaskStateCount; i-- > 0;) {
      StoredTask task = NewTask(static_cast<std::uint64_t>(i) + 1);
      task.record.state = static_cast<TaskState>(i);
      ASSERT_TRUE(store_->PutTask(task));
    }
  });
  std::vector<TaskState> states;
  const Result<std::vector<StoredTask>> unfinished = store_->Unfinished();
  for (const StoredTask& task : *unfinished) states.push_back(task.record.state);
  EXPECT_THAT(states,
              ElementsAre(TaskState::kSubmitted, TaskState::kEstimating, TaskState::kQueued,
                          TaskState::kLaunching, TaskState::kRunning, TaskState::kStopping));
}

TEST_F(StoreTest, CountsAndStates) {
  Batch([&] {
    for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(store_->PutTask(NewTask(id)));
    for (std::uint64_t id = 6; id <= 8; ++id) ASSERT_TRUE(store_->PutTask(FinishedTask(id)));
  });
  EXPECT_THAT(*store_->Counts(),
              ElementsAre(Pair(TaskState::kQueued, 5), Pair(TaskState::kSucceeded, 3)));
  EXPECT_EQ(*store_->StateOf(TaskId{6}), TaskState::kSucceeded);
  Batch([&] {
    ASSERT_TRUE(store_->PutRecord(FinishedTask(5).record, {}));
    ASSERT_TRUE(store_->PutTask(NewTask(8)));
  });
  EXPECT_THAT(*store_->Counts(),
              ElementsAre(Pair(TaskState::kQueued, 5), Pair(TaskState::kSucceeded, 3)));
  EXPECT_EQ(*store_->StateOf(TaskId{60}), std::nullopt);
  const TaskOwner owner = store_->OwnerOf(TaskId{6}).value().value();
  EXPECT_EQ(owner.user, store_->Get(TaskId{6})->user);
  EXPECT_EQ(owner.uid, store_->Get(TaskId{6})->record.request->uid);
  EXPECT_FALSE(store_->OwnerOf(TaskId{60}).value());
  EXPECT_EQ(store_->Get(TaskId{60}).error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, ListFiltersAndPages) {
  Batch([&] {
    for (std::uint64_t id = 1; id <= 12; ++id) {
      StoredTask task = id % 2 == 0 ? FinishedTask(id) : NewTask(id);
      task.user = id <= 6 ? "ada" : "bob";
      task.name = id % 3 == 0 ? "three" : "other";
      if (id > 4) task.record.request.Edit().account = "vision";
      if (id > 9) task.record.request.Edit().qos = "background";
      ASSERT_TRUE(store_->PutTask(task));
    }
  });
  struct Case {
    const char* name;
    TaskFilter filter;
    std::vector<std::uint64_t> ids;
  };
  const Case cases[] = {
      {"newest first", {.limit = 3}, {12, 11, 10}},
      {"the next page", {.limit = 3, .before = TaskId{10}}, {9, 8, 7}},
      {"oldest first", {.newest_first = false, .limit = 3}, {1, 2, 3}},
      {"oldest first, next page", {.newest_first = false, .limit = 2, .before = TaskId{3}}, {4, 5}},
      {"one state", {.states = {TaskState::kSucceeded}, .limit = 2}, {12, 10}},
      {"two states",
       {.states = {TaskState::kSucceeded, TaskState::kQueued}, .limit = 4},
       {12, 11, 10, 9}},
      {"a state that no task has", {.states = {TaskState::kLost}}, {}},
      {"one user", {.user = "ada"}, {6, 5, 4, 3, 2, 1}},
      {"one user, one state, a page",
       {.states = {TaskState::kQueued}, .user = "ada", .limit = 1, .before = TaskId{5}},
       {3}},
      {"one name", {.name = "three"}, {12, 9, 6, 3}},
      {"name, user and state",
       {.states = {TaskState::kSucceeded}, .user = "bob", .name = "three"},
       {12}},
      {"one account and user", {.user = "ada", .account = "vision"}, {6, 5}},
      {"one account, oldest first",
       {.newest_first = false, .limit = 3, .before = TaskId{5}, .account = "vision"},
       {6, 7, 8}},
      {"one class and name", {.name = "three", .qos = "background"}, {12}},
      {"the default class, which few tasks name", {.limit = 2, .qos = "normal"}, {9, 8}},
      {"one user, oldest first", {.user = "bob", .newest_first = false}, {7, 8, 9, 10, 11, 12}},
      {"a limit of 0", {.limit = 0}, {}},
      {"no limit on tasks",
       {.user = "bob", .limit = std::numeric_limits<std::size_t>::max()},
       {12, 11, 10, 9, 8, 7}},
  };
  for (const Case& c : cases) EXPECT_EQ(Ids(c.filter), c.ids) << c.name;
}

TEST_F(StoreTest, SimilarDescriptionsShareTheirCommonPart) {
  Batch([&] {
    for (std::uint64_t id = 1; id <= 1'000; ++id) {
      StoredTask task = NewTask(id, 20'000);
      if (id % 2 == 0) task.user = "bob";
      ASSERT_TRUE(store_->PutTask(task));
    }
  });
  Put([] {
    StoredTask other = NewTask(1'001);
    other.spec_json = std::string(30'000, 'o');
    return other;
  }());
  Put(NewTask(1'002, 20'000));
  Reopen();
  Put(NewTask(1'003, 20'000));
  for (const std::uint64_t id : {1, 2, 500, 999, 1'000, 1'002, 1'003})
    EXPECT_EQ(store_->Get(TaskId{id})->spec_json, NewTask(id, 20'000).spec_json) << id;
  EXPECT_EQ(store_->Get(TaskId{1'001})->spec_json, std::string(30'000, 'o'));
  store_.reset();
  EXPECT_LE(std::filesystem::file_size(dir_ + "/carma.db"), 1U << 20);
}

TEST_F(StoreTest, AListReadsALimitedSumOfDescriptions) {
  Batch([&] {
    for (std::uint64_t id = 1; id <= 20; ++id) {
      StoredTask task = NewTask(id);
      task.spec_json = std::string(1 << 20, static_cast<char>('a' + id));
      ASSERT_TRUE(store_->PutTask(task));
    }
  });
  bool cut = false;
  EXPECT_EQ(store_->List({}, &cut)->size(), 17U);
  EXPECT_TRUE(cut);
  const std::vector<StoredTask> all = store_->List({.newest_first = false}).value();
  ASSERT_EQ(all.size(), 20U);
  EXPECT_EQ(all[16].spec_json.size(), 1U << 20);
  EXPECT_EQ(all[17].spec_json, "");
  EXPECT_EQ(all[19].user, NewTask(20).user);
}

TEST_F(StoreTest, ATemplateOfARolledBackBatchIsNotUsed) {
  ASSERT_TRUE(store_->Begin());
  ASSERT_TRUE(store_->PutTask(NewTask(1)));
  store_->Rollback();
  Put(NewTask(2));
  EXPECT_EQ(store_->Get(TaskId{2})->spec_json, NewTask(2).spec_json);
}

TEST_F(StoreTest, PruneRemovesOldTasksWithTheirRows) {
  const core::Time now = *FinishedTask(3).record.ended;
  Batch([&] {
    ASSERT_TRUE(store_->AddEvent({.when = base::FromMs(1), .kind = EventKind::kDrain}));
    for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(store_->PutTask(FinishedTask(id)));
    ASSERT_TRUE(store_->PutTask(NewTask(5)));
    StoredTask waiting = NewTask(6);
    waiting.record.request.Edit().dependencies = {{TaskId{2}, core::DependencyKind::kAfterOk, {}}};
    ASSERT_TRUE(store_->PutTask(waiting));
    for (std::uint64_t id = 1; id <= 3; ++id)
      ASSERT_TRUE(store_->AddEvent({.when = now, .kind = EventKind::kState, .task = TaskId{id}}));
    ASSERT_TRUE(store_->AddUsage({base::FromMs(0), base::FromMs(9), "GPU-1", 0, 0, 0, 0}));
    ASSERT_TRUE(store_->AddLineWait(
        {base::FromMs(0), base::FromMs(9), core::ReasonCode::kGpuMemory, base::Duration(9)}));
  });
  Batch([&] { EXPECT_EQ(store_->Prune(now, 100), 1); });  // task 2 is needed; 3 and 4 are recent
  EXPECT_THAT(Ids({}), ElementsAre(6, 5, 4, 3, 2));
  EXPECT_EQ(store_->Events(std::nullopt, 0, 10)->size(), 2U);
  EXPECT_THAT(*store_->Usage(base::FromMs(0), now), IsEmpty());
  SQLite::Database db(dir_ + "/carma.db");
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM line_wait").getInt(), 0);
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM description").getInt(), 5);
  EXPECT_THAT(*store_->Counts(),
              ElementsAre(Pair(TaskState::kQueued, 2), Pair(TaskState::kSucceeded, 3)));
  ASSERT_TRUE(store_->Begin());
  EXPECT_TRUE(store_->Prune(base::FromMs(3'000'000'000'000), 100));
  ASSERT_TRUE(store_->Commit());
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM template").getInt(), 1);
  Put(NewTask(7));
  EXPECT_EQ(store_->Get(TaskId{7})->spec_json, NewTask(7).spec_json);
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM template").getInt(), 1) << "still used";
}

// Reading 900,000 descriptions once an hour would delay the daemon.
TEST_F(StoreTest, PruneFindsUnusedTemplatesByAnIndex) {
  SQLite::Database db(dir_ + "/carma.db");
  SQLite::Statement plan(db,
                         "EXPLAIN QUERY PLAN DELETE FROM template WHERE NOT EXISTS (SELECT 1 FROM "
                         "description WHERE description.template=template.id)");
  std::string text;
  while (plan.executeStep()) text += plan.getColumn("detail").getString() + "\n";
  EXPECT_THAT(text, HasSubstr("SEARCH description USING COVERING INDEX"));
}

TEST_F(StoreTest, PruneRespectsItsLimit) {
  Batch([&] {
    for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(store_->PutTask(FinishedTask(id, 10)));
  });
  const core::Time later = base::FromMs(9'000'000'000'000);
  Batch([&] { EXPECT_EQ(store_->Prune(later, 3), 3); });
  EXPECT_FALSE(store_->Get(TaskId{3}));
  EXPECT_TRUE(store_->Get(TaskId{4}));
  Batch([&] { EXPECT_EQ(store_->Prune(later, 3), 2); });
  SQLite::Database db(dir_ + "/carma.db");
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM template").getInt(), 0);
  Put(NewTask(6));
  EXPECT_EQ(store_->Get(TaskId{6})->spec_json, NewTask(6).spec_json);
}

TEST_F(StoreTest, ShowsASubmissionInPiecesOnceComplete) {
  Batch([&] { ASSERT_TRUE(store_->PutTask(NewTask(1))); });
  Batch([&] {
    ASSERT_TRUE(store_->BeginArrival(TaskId{2}, 3));
    ASSERT_TRUE(store_->PutTask(NewTask(2)));
  });
  Batch([&] {
    ASSERT_TRUE(store_->PutTask(NewTask(3)));
    ASSERT_TRUE(store_->PutTask(NewTask(5)));  // part of another submission
  });
  EXPECT_THAT(Ids({.newest_first = false}), ElementsAre(1, 5));
  EXPECT_FALSE(store_->Get(TaskId{2}));
  EXPECT_EQ(store_->StateOf(TaskId{3}).value(), std::nullopt);
  EXPECT_THAT(*store_->Counts(), ElementsAre(Pair(TaskState::kQueued, 2)));
  EXPECT_EQ(store_->NextId().value(), TaskId{6});
  Batch([&] {
    ASSERT_TRUE(store_->PutTask(NewTask(4)));
    ASSERT_TRUE(store_->FinishArrival(TaskId{2}));
  });
  EXPECT_THAT(Ids({.newest_first = false}), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_TRUE(store_->Get(TaskId{2}));
  EXPECT_THAT(*store_->Counts(), ElementsAre(Pair(TaskState::kQueued, 5)));
  EXPECT_TRUE(store_->Arrivals()->empty());
}

TEST_F(StoreTest, DropsAnIncompleteSubmissionWithoutReusingItsNumbers) {
  Batch([&] {
    ASSERT_TRUE(store_->BeginArrival(TaskId{1}, 4));
    for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(store_->PutTask(NewTask(id)));
  });
  Reopen();
  EXPECT_THAT(Ids({}), IsEmpty());
  EXPECT_TRUE(store_->Counts()->empty());
  EXPECT_EQ(store_->Arrivals().value(), std::vector{TaskId{1}});
  EXPECT_TRUE(store_->Unfinished()->empty()) << "tasks being withdrawn must not start";
  Batch([&] { EXPECT_EQ(store_->DropArrival(TaskId{1}, 2), false); });
  EXPECT_THAT(Ids({}), IsEmpty());
  Batch([&] { EXPECT_EQ(store_->DropArrival(TaskId{1}, 2), true); });
  EXPECT_TRUE(store_->Arrivals()->empty());
  EXPECT_THAT(Ids({}), IsEmpty());
  EXPECT_TRUE(store_->Counts()->empty());
  EXPECT_EQ(store_->NextId().value(), TaskId{5});
}

TEST_F(StoreTest, AnotherProgramMayReadWhileTheStoreIsOpen) {
  Put(NewTask(1));
  SQLite::Database db(dir_ + "/carma.db");
  EXPECT_EQ(db.execAndGet("SELECT state FROM task").getString(), "queued");
}

TEST_F(StoreTest, ReportsImpossibleValuesAsCorrupt) {
  Put(NewTask(1));
  store_.reset();
  {
    SQLite::Database db(dir_ + "/carma.db", SQLite::OPEN_READWRITE);
    db.exec("UPDATE task SET exit_kind='eaten'");
  }
  Reopen();
  const auto got = store_->Get(TaskId{1});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(got.error().message, HasSubstr("task 1"));
  EXPECT_THAT(got.error().message, HasSubstr("exit_kind"));
}

TEST_F(StoreTest, AClosedStoreIsOneFileForItsOwnerOnly) {
  Put(NewTask(1));
  store_.reset();
  EXPECT_TRUE(base::Exists(dir_ + "/carma.db"));
  EXPECT_FALSE(base::Exists(dir_ + "/carma.db-wal"));
  EXPECT_FALSE(base::Exists(dir_ + "/carma.db-shm"));
  struct stat info {};
  ASSERT_EQ(::stat((dir_ + "/carma.db").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(StoreTest, ShrinksTheLogAfterALargeBatch) {
  Batch([&] {
    for (std::uint64_t id = 1; id <= 20'000; ++id) ASSERT_TRUE(store_->PutTask(NewTask(id)));
  });
  Put(NewTask(30'000));
  Put(NewTask(30'001));
  EXPECT_LE(std::filesystem::file_size(dir_ + "/carma.db-wal"), 17U << 20);
}

TEST_F(StoreTest, ChangesADescription) {
  Put(FullTask(3));
  Batch([&] { ASSERT_TRUE(store_->PutDescription({TaskId{3}, "other", R"({"command":["b"]})"})); });
  const auto task = store_->Get(TaskId{3});
  ASSERT_TRUE(task);
  EXPECT_EQ(task->name, "other");
  EXPECT_EQ(task->spec_json, R"({"command":["b"]})");
  ASSERT_TRUE(store_->Begin());
  EXPECT_EQ(store_->PutDescription({TaskId{9}, "x", "{}"}).error().code, ErrorCode::kNotFound);
  store_->Rollback();
}

}  // namespace
}  // namespace carma::store
