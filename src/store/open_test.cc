// Tests that the store refuses unusable databases without changing the folder, and upgrades old
// ones.
#include "store/open.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/unique_fd.h"
#include "store/lock.h"
#include "store/schema.h"
#include "store/store.h"
#include "store/task_fixture.h"

namespace carma::store {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// The contents of all files. The lock file is omitted, because it contains only pids.
std::map<std::string, std::string> Contents(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const auto& each : std::filesystem::directory_iterator(dir)) {
    if (each.path().filename() == "lock") continue;
    files[each.path().filename()] = *base::ReadFile(each.path(), 1 << 30);
  }
  return files;
}

class StoreRefusal : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-open-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    path_ = dir_ + "/carma.db";
    Fill();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // Creates a database with some content and closes it properly.
  void Fill() {
    Result<std::unique_ptr<Store>> store = Store::Open(dir_);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE((*store)->Begin());
    for (std::uint64_t id = 1; id <= 300; ++id) ASSERT_TRUE((*store)->PutTask(FinishedTask(id)));
    ASSERT_TRUE((*store)->Commit());
  }
  // Runs SQL in a process that dies immediately afterwards, so that its changes are only in the
  // log.
  void LeaveInLog(const std::string& sql) {
    const pid_t child = ::fork();
    if (child == 0) {
      SQLite::Database db(path_, SQLite::OPEN_READWRITE);
      db.exec(sql);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    ASSERT_GT(std::filesystem::file_size(path_ + "-wal"), 0U);
  }
  void Write(const std::string& bytes) {
    std::filesystem::remove(path_);
    ASSERT_TRUE(base::WriteFileAtomic(path_, bytes, 0600));
  }
  // Creates the file as an older CARMA would have left it.
  void MakeOldBooks(int version, const std::string& rows) {
    std::filesystem::remove(path_);
    SQLite::Database db(path_, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("PRAGMA application_id=" + std::to_string(kApplicationId));
    for (const Migration& step : Migrations()) {
      if (step.version <= version) db.exec(std::string(step.sql));
    }
    db.exec("PRAGMA user_version=" + std::to_string(version));
    db.exec(rows);
  }
  std::string Bytes() { return *base::ReadFile(path_, 1 << 30); }

  void ExpectRefused(const char* name, ErrorCode code, const std::string& text) {
    const std::map<std::string, std::string> before = Contents(dir_);
    const Result<std::unique_ptr<Store>> store = Store::Open(dir_);
    ASSERT_FALSE(store) << name;
    EXPECT_EQ(store.error().code, code) << name << ": " << store.error().message;
    EXPECT_THAT(store.error().message, HasSubstr(text)) << name;
    EXPECT_THAT(store.error().message, HasSubstr(path_)) << name;
    EXPECT_EQ(Contents(dir_), before) << name << ": the folder has changed";
  }

  std::string dir_, path_;
};

TEST_F(StoreRefusal, EveryNewDatabaseKeepsItsOwnId) {
  const auto id = [](const std::string& dir) {
    return Store::Open(dir).value()->BooksOf(core::TaskId{1});
  };
  const BooksId first = id(dir_);
  EXPECT_EQ(first.id.size(), 32U);
  EXPECT_TRUE(first.named);
  EXPECT_EQ(id(dir_), first);
  const std::string other = dir_ + "/other";
  std::filesystem::create_directory(other);
  EXPECT_NE(id(other).id, first.id);
}

TEST_F(StoreRefusal, AnUpgradeKeepsTheFileNamesOfExistingTasks) {
  MakeOldBooks(20, "UPDATE counter SET value=12 WHERE name='task'");
  const std::unique_ptr<Store> store = Store::Open(dir_).value();
  const BooksId old = store->BooksOf(core::TaskId{12}), next = store->BooksOf(core::TaskId{13});
  EXPECT_FALSE(old.named);
  EXPECT_TRUE(next.named);
  EXPECT_EQ(old.id.size(), 32U);
}

TEST_F(StoreRefusal, RefusesForeignOrDamagedFiles) {
  const std::string sound = Bytes();
  const auto with = [&](std::size_t at, const std::string& bytes) {
    return std::string(sound).replace(at, bytes.size(), bytes);
  };
  struct Case {
    const char* name;
    std::string bytes;
    ErrorCode code;
    std::string text;
  };
  const int newer = SchemaVersion() + 1;
  const Case cases[] = {
      {"empty", "", ErrorCode::kCorrupt,
       "is not a CARMA state file, expected an SQLite database; restore a backup, or move"},
      {"a text", "hello", ErrorCode::kCorrupt, "is not a CARMA state file"},
      {"noise", std::string(8192, '\xA7'), ErrorCode::kCorrupt, "is not a CARMA state file"},
      {"another application", with(68, "ABCD"), ErrorCode::kCorrupt, "another application"},
      {"schema 0", with(60, std::string(4, '\0')), ErrorCode::kCorrupt, "schema 0"},
      {"the schema before our oldest", with(60, {'\0', '\0', '\0', 19}), ErrorCode::kCorrupt,
       "has schema 19, but this version requires at least 20"},
      {"a newer schema", with(60, {'\0', '\0', '\0', static_cast<char>(newer)}),
       ErrorCode::kConflict,
       fmt::format("schema {} from a newer CARMA, but this version supports at most {}: start the "
                   "newer version",
                   newer, SchemaVersion())},
      {"cut in half", sound.substr(0, sound.size() / 2 / 4096 * 4096), ErrorCode::kCorrupt,
       "is damaged: database disk image is malformed; restore a backup, or move the file"},
      {"a page of zeros", with(3 * 4096, std::string(4096, '\0')), ErrorCode::kCorrupt,
       "; restore a backup"},
      {"a page of noise", with(5 * 4096, std::string(4096, '\x5A')), ErrorCode::kCorrupt,
       "; restore a backup"},
  };
  for (const Case& c : cases) {
    Write(c.bytes);
    ExpectRefused(c.name, c.code, c.text);
    EXPECT_THAT(Store::Open(dir_).error().message, Not(AnyOf(HasSubstr("\n"), HasSubstr("***"))))
        << c.name;
  }
  Write(sound);
  EXPECT_TRUE(Store::Open(dir_)) << "the undamaged file is still accepted";
}

TEST_F(StoreRefusal, RefusesALink) {
  std::filesystem::rename(path_, dir_ + "/real");
  std::filesystem::create_symlink("real", path_);
  ExpectRefused("a link", ErrorCode::kConflict, "is a symbolic link, expected a regular file");
  std::filesystem::remove(dir_ + "/real");
  const Result<std::unique_ptr<Store>> dangling = Store::Open(dir_);
  ASSERT_FALSE(dangling) << "a new file would replace a link to a disk that is not mounted";
  EXPECT_THAT(dangling.error().message, HasSubstr("is a symbolic link"));
}

TEST_F(StoreRefusal, RefusesANewerSchemaInTheLog) {
  const std::string newer = std::to_string(SchemaVersion() + 1);
  LeaveInLog("PRAGMA user_version=" + newer);
  ExpectRefused("newer in the log", ErrorCode::kConflict,
                "schema " + newer + " from a newer CARMA");
}

TEST_F(StoreRefusal, RefusesDamageUnderAnUnfinishedLog) {
  LeaveInLog("UPDATE task SET ooms=1 WHERE id=1");
  std::string bytes = Bytes();
  bytes.replace(6 * 4096, 4096, std::string(4096, '\x33'));
  {
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    ASSERT_TRUE(base::WriteAll(fd, bytes));
    ::close(fd);
  }
  ExpectRefused("damaged with a log", ErrorCode::kCorrupt, "");
}

TEST_F(StoreRefusal, RefusesALogWithoutItsFileAndForeignJournals) {
  LeaveInLog("UPDATE task SET ooms=1 WHERE id=1");
  std::filesystem::rename(path_, dir_ + "/moved");
  ExpectRefused("log without its file", ErrorCode::kCorrupt, "is missing, but its log");
  std::filesystem::rename(dir_ + "/moved", path_);
  EXPECT_TRUE(Store::Open(dir_)) << "both files together are valid";
  ASSERT_TRUE(base::WriteFileAtomic(path_ + "-journal", "x"));
  ExpectRefused("a journal", ErrorCode::kCorrupt, "-journal");
}

TEST_F(StoreRefusal, RefusesToReplaceALostDatabaseOfTasksWithFolders) {
  std::filesystem::remove(path_);
  std::filesystem::create_directories(dir_ + "/attempts/7/1");
  {
    const Result<std::unique_ptr<Store>> store = Store::Open(dir_);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(store.error().message, HasSubstr(path_ + " is missing, but " + dir_ +
                                                 "/attempts has folders of tasks: restore"));
  }
  EXPECT_FALSE(base::Exists(path_));
  std::filesystem::remove_all(dir_ + "/attempts/7");
  EXPECT_TRUE(Store::Open(dir_)) << "no task has a folder";
}

TEST_F(StoreRefusal, UsesALogLeftByAKilledDaemon) {
  LeaveInLog("UPDATE task SET ooms=7 WHERE id=1");
  const Result<std::unique_ptr<Store>> store = Store::Open(dir_);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ((*store)->Get(core::TaskId{1})->record.ooms, 7);
}

TEST_F(StoreRefusal, OthersCanNoLongerReadAnOpenedDatabase) {
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  LeaveInLog("UPDATE task SET ooms=7 WHERE id=1");
  const Result<std::unique_ptr<Store>> store = Store::Open(dir_);
  ASSERT_TRUE(store) << store.error().message;
  for (const char* suffix : {"", "-wal", "-shm"}) {
    struct stat info {};
    ASSERT_EQ(::stat((path_ + suffix).c_str(), &info), 0) << suffix;
    EXPECT_EQ(info.st_mode & 0777, 0600U) << suffix;
  }
}

TEST_F(StoreRefusal, InspectsALogAndReportsAMissingFile) {
  LeaveInLog("UPDATE task SET ooms=7 WHERE id=1");
  EXPECT_TRUE(Inspect(path_));
  EXPECT_EQ(Inspect(dir_ + "/none.db").error().code, ErrorCode::kNotFound);
}

TEST_F(StoreRefusal, ANewFileIsCompleteOrAbsent) {
  std::filesystem::remove(path_);
  ASSERT_TRUE(base::WriteFileAtomic(path_ + ".new", "half a file of a killed daemon"));
  ASSERT_TRUE(OpenForWork(path_));
  EXPECT_FALSE(base::Exists(path_ + ".new"));
  EXPECT_TRUE(Inspect(path_));
}

TEST_F(StoreRefusal, ReportsAFullDisk) {
  const bool mounts = ::unshare(CLONE_NEWNS) == 0 &&
                      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("carma-test", dir_.c_str(), "tmpfs", 0, "size=3m,mode=0700") == 0;
  if (!mounts) GTEST_SKIP() << "needs permission to mount";
  Fill();
  const std::string page(4'096, 'x');
  base::UniqueFd ballast(::open((dir_ + "/ballast").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  while (::write(ballast.get(), page.data(), page.size()) > 0) {
  }
  const Result<std::unique_ptr<Store>> store = Store::Open(dir_);
  const std::string message = store ? "" : store.error().message;
  ::umount2(dir_.c_str(), MNT_DETACH);
  EXPECT_THAT(message,
              HasSubstr("disk I/O error (no space left on the disk that holds " + dir_ + ")"));
}

TEST_F(StoreRefusal, NamesADatabaseThatCannotBeWritten) {
  const char* const path = path_.c_str();
  const bool mounts =
      ::unshare(CLONE_NEWNS) == 0 &&
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount(path, path, nullptr, MS_BIND, nullptr) == 0 &&
      ::mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  if (!mounts) GTEST_SKIP() << "needs permission to mount";
  const Result<std::unique_ptr<Store>> store = Store::Open(dir_);
  ::umount2(path, MNT_DETACH);
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message, HasSubstr("opening " + path_ + ": "));
}

TEST_F(StoreRefusal, EveryMigrationLeadsFromTheOneBefore) {
  int version = Migrations().front().version - 1;
  for (const Migration& step : Migrations()) EXPECT_EQ(step.version, ++version);
  EXPECT_EQ(version, SchemaVersion());
}

// Simulates an upgrade of the daemon while a task is running and a GPU is drained.
TEST_F(StoreRefusal, UpgradesSchema20WithTasksDrainsAndUse) {
  MakeOldBooks(
      20,
      "INSERT INTO task(id,state,user,name,uid,gpus,exclusive,priority,max_recoveries,requeue,"
      "submitted_held,array_limit,queue,held,reason,reason_text,estimate_mib,estimate_method,"
      "attempt,ooms,launch_failures,node_failures,retry_on_idle_gpu,placement,gpu_uuids,"
      "placement_reason,placement_reason_text,stopping,submitted_ms,queued_since_ms,"
      "first_start_ms,launched_ms,started_ms,exit_kind,exit_code,exit_signal,exit_detail,"
      "peak_mib,predicted_mib) VALUES(7,'running','ada','train',1000,1,0,0,3,1,0,0,'main',0,'',"
      "'',12000,'given',1,0,0,2,0,'[[0,12000]]','[\"GPU-1\"]','','','none',1,1,2,2,3,'success',"
      "0,0,'',11000,9000);"
      "INSERT INTO description VALUES(7,1000,NULL,'{}','/o','/o');"
      "INSERT INTO gpu_usage VALUES(1,1000,61000,'GPU-1',0.5,2048.0,NULL,1,NULL,NULL,NULL);"
      "INSERT INTO drain VALUES('GPU-2',0,'fan',NULL)");
  const Result<std::unique_ptr<Store>> store = Store::Open(dir_);
  ASSERT_TRUE(store) << store.error().message;
  const Result<StoredTask> task = (*store)->Get(core::TaskId{7});
  ASSERT_TRUE(task) << task.error().message;
  const core::TaskRecord& record = task->record;
  EXPECT_EQ(record.estimate, (core::Estimate{12'000, "given", 9'000}));
  EXPECT_EQ(record.node_failures, 2);
  EXPECT_EQ(record.peak_mib, 11'000);
  EXPECT_EQ(record.request->sm_share, std::nullopt);
  EXPECT_EQ(record.victim_restarts, 0);
  EXPECT_EQ(record.attempt->sharing, core::Sharing{});
  EXPECT_EQ(record.attempt->idle_since, std::nullopt);
  EXPECT_THAT((*store)->Drains().value(), ElementsAre(Drain{"GPU-2", "fan", false}));
  const std::vector<GpuUsage> usage = *(*store)->Usage(base::FromMs(0), base::FromMs(61'000));
  ASSERT_EQ(usage.size(), 1U);
  EXPECT_EQ(usage[0].used_mib, 2048);
  EXPECT_TRUE(std::isnan(usage[0].sm_peak));
  EXPECT_TRUE(std::isnan(usage[0].used_peak_mib));
  EXPECT_TRUE(std::isnan(usage[0].dram_active));
  ASSERT_TRUE((*store)->Begin());
  EXPECT_TRUE((*store)->PutDrain({"GPU-2", "Xid 79", true}));
  EXPECT_TRUE((*store)->DropDrain("GPU-2", false));
  EXPECT_TRUE((*store)->Commit());
  EXPECT_THAT((*store)->Drains().value(), ElementsAre(Drain{"GPU-2", "Xid 79", true}));
  EXPECT_EQ((*store)->ServerClosing().value(), std::nullopt);
}

TEST(StateLock, ReportsTheHoldersPidAndSocket) {
  std::string pattern = ::testing::TempDir() + "carma-lock-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::string dir = pattern + "/made/by/us";
  {
    const Result<std::unique_ptr<Store>> first = Store::Open(dir, "/run/first.sock");
    ASSERT_TRUE(first) << first.error().message;
    struct stat info {};
    ASSERT_EQ(::stat(dir.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
    const Result<std::unique_ptr<Store>> second = Store::Open(dir, "/run/second.sock");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kConflict);
    EXPECT_THAT(second.error().message,
                HasSubstr("(pid " + std::to_string(::getpid()) +
                          "); to use it: export CARMA_SOCKET=/run/first.sock"));
    EXPECT_THAT(Store::Open(dir, "/run/first.sock").error().message, EndsWith(")"))
        << "clients of this socket already use it";
  }
  EXPECT_TRUE(Store::Open(dir)) << "the first store has released the lock";
  std::filesystem::remove_all(pattern);
}

TEST(StateLock, RefusesAFolderThatOthersMayChange) {
  std::string dir = ::testing::TempDir() + "carma-lock-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  ASSERT_EQ(::chmod(dir.c_str(), 0777), 0);
  const Result<StateLock> shared = StateLock::Take(dir);
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().code, ErrorCode::kDenied);
  EXPECT_THAT(shared.error().message, HasSubstr("chmod go-w"));
  ASSERT_TRUE(base::WriteFileAtomic(dir + "/file", ""));
  EXPECT_FALSE(StateLock::Take(dir + "/file"));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace carma::store
