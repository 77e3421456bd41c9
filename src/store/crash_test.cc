// Tests the database's guarantees after power failures, torn logs, kills and full disks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "store/fake_vfs.h"
#include "store/store.h"
#include "store/task_fixture.h"

namespace carma::store {
namespace {

using core::TaskId;

constexpr std::uint64_t kBatchTasks = 12;

// Batch n consists of tasks 12 n + 1 … 12 n + 12, an event, and a change to the very first task.
Result<Unit> WriteBatch(Store& store, std::uint64_t n) {
  Result<Unit> ok = store.Begin();
  for (std::uint64_t i = 1; ok && i <= kBatchTasks; ++i) {
    StoredTask task = NewTask(n * kBatchTasks + i);
    task.spec_json = std::string(600, static_cast<char>('a' + n % 26)) + std::to_string(n);
    ok = store.PutTask(task);
  }
  if (ok) ok = store.AddEvent({.kind = EventKind::kDrain, .what = std::to_string(n)});
  if (ok) {
    core::TaskRecord first = NewTask(1).record;
    first.attempt.Edit().number = static_cast<int>(n);
    ok = store.PutRecord(first, {});
  }
  if (ok) return store.Commit();
  store.Rollback();
  return ok;
}

// The number of batches in the database. The test fails if a batch is incomplete.
std::uint64_t WholeBatches(Store& store) {
  const Result<std::vector<StoredTask>> tasks =
      store.List({.newest_first = false, .limit = 1'000'000});
  EXPECT_TRUE(tasks) << tasks.error().message;
  const std::uint64_t batches = tasks->size() / kBatchTasks;
  EXPECT_EQ(tasks->size() % kBatchTasks, 0U);
  for (std::uint64_t i = 0; i < tasks->size(); ++i) {
    EXPECT_EQ(Number((*tasks)[i].record.id), i + 1);
    EXPECT_TRUE((*tasks)[i].spec_json.ends_with(std::to_string(i / kBatchTasks)));
  }
  EXPECT_EQ(store.Events(std::nullopt, 0, 1'000'000)->size(), batches);
  EXPECT_EQ(store.NextId(), TaskId{tasks->size() + 1});
  EXPECT_EQ(store.Counts()->size(), batches == 0 ? 0U : 1U);
  if (batches > 0) {
    EXPECT_EQ((*tasks)[0].record.attempt->number, static_cast<int>(batches) - 1);
    EXPECT_EQ(store.Counts()->at(0).second, static_cast<std::int64_t>(tasks->size()));
  }
  return batches;
}

class StoreCrash : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-crash-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    dir_ = root_ + "/state";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  static std::unique_ptr<Store> MustOpen(const std::string& dir) {
    Result<std::unique_ptr<Store>> store = Store::Open(dir);
    EXPECT_TRUE(store) << store.error().message;
    return store ? *std::move(store) : nullptr;
  }
  // Writes the files to an empty folder.
  std::string Lay(const std::map<std::string, std::string>& files) {
    const std::string dir = root_ + "/copy";
    std::filesystem::remove_all(dir);
    EXPECT_TRUE(base::MakeDirs(dir, 0700));
    for (const auto& [path, bytes] : files) {
      const std::string name = std::filesystem::path(path).filename().string();
      EXPECT_TRUE(base::WriteFileAtomic(dir + "/" + name, bytes, 0600));
    }
    return dir;
  }
  std::string root_, dir_;
};

struct PowerCut {
  std::map<std::string, std::string> files;
  std::uint64_t committed;  // batches whose Commit had returned
};

TEST_F(StoreCrash, APowerCutAtAnyMomentLosesNoCommittedBatchAndKeepsNoHalfOne) {
  constexpr std::uint64_t kBatches = 120;  // enough for several checkpoints
  base::Rng rng(20'260'301);
  std::vector<PowerCut> cuts;
  {
    FakeVfs disk;
    std::uint64_t committed = 0;
    const std::unique_ptr<Store> store = MustOpen(dir_);
    disk.at_each_change = [&] {
      if (rng.Below(40) == 0) cuts.push_back({disk.AfterPowerFailure(rng), committed});
    };
    for (std::uint64_t n = 0; n < kBatches; ++n) {
      ASSERT_TRUE(WriteBatch(*store, n));
      committed = n + 1;
    }
  }
  ASSERT_GE(cuts.size(), 50U);
  std::uint64_t in_flight_survived = 0;
  for (const PowerCut& cut : cuts) {
    const std::unique_ptr<Store> store = MustOpen(Lay(cut.files));
    ASSERT_NE(store, nullptr);
    const std::uint64_t found = WholeBatches(*store);
    EXPECT_GE(found, cut.committed);
    EXPECT_LE(found, cut.committed + 1);
    in_flight_survived += found - cut.committed;
    ASSERT_TRUE(WriteBatch(*store, found));  // and work continues
  }
  RecordProperty("cuts", static_cast<int>(cuts.size()));
  RecordProperty("in_flight_survived", static_cast<int>(in_flight_survived));
}

TEST_F(StoreCrash, APowerCutLosesOnlyDeferredBatches) {
  base::Rng rng(7);
  std::vector<PowerCut> cuts;
  {
    FakeVfs disk;
    std::uint64_t committed = 0;
    const std::unique_ptr<Store> store = MustOpen(dir_);
    for (std::uint64_t n = 0; n < 60; ++n) {
      ASSERT_TRUE(WriteBatch(*store, n));
      committed = n + 1;
      ASSERT_TRUE(store->Begin(Durability::kLater));
      core::TaskRecord second = NewTask(2).record;
      second.ooms = static_cast<int>(n + 1);
      ASSERT_TRUE(store->PutRecord(second, {}));
      ASSERT_TRUE(store->Commit());
      cuts.push_back({disk.AfterPowerFailure(rng), committed});
    }
  }
  std::uint64_t taken_back = 0;
  for (const PowerCut& cut : cuts) {
    const std::unique_ptr<Store> store = MustOpen(Lay(cut.files));
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(WholeBatches(*store), cut.committed);
    const auto ooms = static_cast<std::uint64_t>(store->Get(TaskId{2})->record.ooms);
    EXPECT_GE(ooms + 1, cut.committed);  // only the last kLater batch had no kNow batch after it
    taken_back += cut.committed - ooms;
  }
  EXPECT_GT(taken_back, 0U);  // otherwise nothing was tested
}

TEST_F(StoreCrash, ATornOrGarbledLogGivesWholeBatchesOnly) {
  const std::unique_ptr<Store> writer = MustOpen(dir_);
  for (std::uint64_t n = 0; n < 15; ++n) ASSERT_TRUE(WriteBatch(*writer, n));
  const std::string db = *base::ReadFile(dir_ + "/carma.db", 1 << 30);
  const std::string log = *base::ReadFile(dir_ + "/carma.db-wal", 1 << 30);
  base::Rng rng(4);
  for (int i = 0; i < 60; ++i) {
    std::string torn = log;
    const std::uint64_t at = rng.Below(log.size());
    if (i % 2 == 0) {
      torn.resize(at);
    } else {
      for (std::uint64_t k = at; k < std::min<std::uint64_t>(at + 700, torn.size()); ++k)
        torn[k] = static_cast<char>(rng.Next());
    }
    const std::unique_ptr<Store> store = MustOpen(Lay({{"carma.db", db}, {"carma.db-wal", torn}}));
    ASSERT_NE(store, nullptr) << "cut at " << at;
    EXPECT_LE(WholeBatches(*store), 15U);
  }
  const std::unique_ptr<Store> whole = MustOpen(Lay({{"carma.db", db}, {"carma.db-wal", log}}));
  EXPECT_EQ(WholeBatches(*whole), 15U);
}

// Writes batches in an endless loop and reports each commit through the pipe.
[[noreturn]] void WriteUntilKilled(const std::string& dir, int pipe) {
  Result<std::unique_ptr<Store>> store = Store::Open(dir);
  if (!store) ::_exit(3);
  const std::uint64_t first = (Number(*(*store)->NextId()) - 1) / kBatchTasks;
  for (std::uint64_t n = first;; ++n) {
    if (!WriteBatch(**store, n)) ::_exit(4);
    const std::uint64_t committed = n + 1;
    if (::write(pipe, &committed, sizeof committed) != ssize_t{sizeof committed}) ::_exit(5);
  }
}

TEST_F(StoreCrash, AKilledWriterLosesNoCommittedBatch) {
  base::Rng rng(99);
  for (int round = 0; round < 40; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe[0]);
      WriteUntilKilled(dir_, pipe[1]);
    }
    ::close(pipe[1]);
    std::uint64_t committed = 0;
    for (std::uint64_t wanted = rng.Below(12) + 1; wanted > 0; --wanted)
      ASSERT_EQ(::read(pipe[0], &committed, sizeof committed), ssize_t{sizeof committed});
    // Kills the child after a random delay, while it writes its next batches.
    for (volatile std::uint64_t spin = rng.Below(600'000); spin > 0;) spin = spin - 1;
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    while (::read(pipe[0], &committed, sizeof committed) == ssize_t{sizeof committed}) {
    }
    ::close(pipe[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const std::unique_ptr<Store> store = MustOpen(dir_);
    ASSERT_NE(store, nullptr);
    const std::uint64_t found = WholeBatches(*store);
    EXPECT_GE(found, committed);
    EXPECT_LE(found, committed + 1);
  }
}

TEST_F(StoreCrash, AFullDiskRefusesTheBatchAndNothingElse) {
  FakeVfs disk;
  std::unique_ptr<Store> store = MustOpen(dir_);
  std::uint64_t batches = 0;
  for (; batches < 5; ++batches) ASSERT_TRUE(WriteBatch(*store, batches));
  int refused = 0;
  for (std::int64_t space = 0; space < 120'000; space += 2'900) {
    disk.space_left = space;
    const Result<Unit> written = WriteBatch(*store, batches);
    if (written) {
      ++batches;
    } else {
      ++refused;
      EXPECT_EQ(written.error().code, ErrorCode::kIo);
      EXPECT_THAT(written.error().message, ::testing::HasSubstr("no space left"));
    }
    EXPECT_EQ(WholeBatches(*store), batches) << "with " << space << " bytes of space";
    disk.space_left.reset();
    ASSERT_TRUE(WriteBatch(*store, batches++)) << "space is available again";
    EXPECT_EQ(WholeBatches(*store), batches);
  }
  EXPECT_GE(refused, 5);
  store.reset();
  EXPECT_EQ(WholeBatches(*MustOpen(dir_)), batches);
}

TEST_F(StoreCrash, ADiskThatStaysFullStillServesReadersAndCloses) {
  FakeVfs disk;
  std::unique_ptr<Store> store = MustOpen(dir_);
  ASSERT_TRUE(WriteBatch(*store, 0));
  disk.space_left = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(WriteBatch(*store, 1).error().code, ErrorCode::kIo);
  EXPECT_EQ(WholeBatches(*store), 1U);
  store.reset();  // cannot checkpoint, so the log keeps the batch
  disk.space_left.reset();
  EXPECT_EQ(WholeBatches(*MustOpen(dir_)), 1U);
}

TEST_F(StoreCrash, ADiskThatCannotSyncRefusesTheBatch) {
  FakeVfs disk;
  const std::unique_ptr<Store> store = MustOpen(dir_);
  ASSERT_TRUE(WriteBatch(*store, 0));
  disk.syncs_fail = true;
  EXPECT_EQ(WriteBatch(*store, 1).error().code, ErrorCode::kIo);
  EXPECT_EQ(WholeBatches(*store), 1U);
  disk.syncs_fail = false;
  EXPECT_TRUE(WriteBatch(*store, 1));
  EXPECT_EQ(WholeBatches(*store), 2U);
}

TEST_F(StoreCrash, ANewStoreOnAFullDiskIsRefusedAndMadeLater) {
  FakeVfs disk;
  disk.space_left = 9'000;
  const Result<std::unique_ptr<Store>> store = Store::Open(dir_);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kIo);
  EXPECT_FALSE(base::Exists(dir_ + "/carma.db"));
  disk.space_left.reset();
  EXPECT_EQ(WholeBatches(*MustOpen(dir_)), 0U);
}

TEST_F(StoreCrash, TheRestOfAFailedBatchIsRefused) {
  FakeVfs disk;
  const std::unique_ptr<Store> store = MustOpen(dir_);
  ASSERT_TRUE(WriteBatch(*store, 0));
  ASSERT_TRUE(store->Begin());
  StoredTask huge = NewTask(100);
  huge.spec_json = std::string(8 << 20, 'h');  // exceeds SQLite's cache
  disk.space_left = 1 << 20;
  EXPECT_EQ(store->PutTask(huge).error().code, ErrorCode::kIo);
  disk.space_left.reset();
  EXPECT_EQ(store->PutTask(NewTask(101)).error().code, ErrorCode::kIo);
  EXPECT_EQ(store->Commit().error().code, ErrorCode::kIo);
  EXPECT_EQ(WholeBatches(*store), 1U);
  EXPECT_TRUE(WriteBatch(*store, 1));
}

}  // namespace
}  // namespace carma::store
