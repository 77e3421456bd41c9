#include "store/backup.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "store/store.h"
#include "store/task_fixture.h"

namespace {
bool has_hard_links = true;
}

// Replaces the C library's function.
extern "C" int link(const char* from, const char* to) noexcept {
  if (has_hard_links) return ::linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
  errno = EPERM;
  return -1;
}

namespace carma::store {
namespace {

using ::testing::HasSubstr;

class BackUpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-backup-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  std::string State() const { return Path("state"); }
  static void Put(Store& store, std::uint64_t id) {
    ASSERT_TRUE(store.Begin());
    ASSERT_TRUE(store.PutTask(NewTask(id)));
    ASSERT_TRUE(store.Commit());
  }
  // Number of tasks that a daemon started from the copy would find.
  std::size_t TasksIn(const std::string& copy) {
    const std::string restored = copy + ".restored";
    ::mkdir(restored.c_str(), 0700);
    std::filesystem::copy_file(copy, restored + "/carma.db");
    const Result<std::unique_ptr<Store>> store = Store::Open(restored);
    EXPECT_TRUE(store) << store.error().message;
    return store ? (*store)->Unfinished()->size() : 0;
  }
  std::size_t Files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(dir_), {}));
  }

  std::string dir_;
};

TEST_F(BackUpTest, CopiesDurableDataWhileTheDatabaseIsWritten) {
  const Result<std::unique_ptr<Store>> store = Store::Open(State());
  ASSERT_TRUE(store) << store.error().message;
  for (std::uint64_t id = 1; id <= 3; ++id) Put(**store, id);
  ASSERT_TRUE((*store)->Begin());
  ASSERT_TRUE((*store)->PutTask(NewTask(4)));  // an open batch is not copied
  const Result<std::int64_t> copied = BackUp(State(), Path("copy"), false);
  ASSERT_TRUE(copied) << copied.error().message;
  ASSERT_TRUE((*store)->Commit());
  Put(**store, 5);
  EXPECT_EQ(*copied, static_cast<std::int64_t>(std::filesystem::file_size(Path("copy"))));
  struct stat info {};
  ASSERT_EQ(::stat(Path("copy").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(Files(), 2U) << "the state folder and the copy, and nothing else";
  EXPECT_EQ(TasksIn(Path("copy")), 3U);
  EXPECT_EQ((*store)->Unfinished()->size(), 5U);
}

TEST_F(BackUpTest, CopiesAClosedDatabaseAndLeavesItUsable) {
  {
    const Result<std::unique_ptr<Store>> store = Store::Open(State());
    ASSERT_TRUE(store);
    Put(**store, 1);
  }
  ASSERT_TRUE(BackUp(State(), Path("copy"), false));
  EXPECT_EQ(TasksIn(Path("copy")), 1U);
  const Result<std::unique_ptr<Store>> again = Store::Open(State());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ((*again)->Unfinished()->size(), 1U);
}

// The copy will assign numbers that the original database has assigned to other tasks.
TEST_F(BackUpTest, ACopyThatIsUsedBecomesAnotherDatabase) {
  const Result<std::unique_ptr<Store>> store = Store::Open(State());
  ASSERT_TRUE(store);
  Put(**store, 1);
  std::filesystem::create_directory(Path("restored"));
  ASSERT_TRUE(BackUp(State(), Path("restored") + "/carma.db", false));
  const Result<std::unique_ptr<Store>> restored = Store::Open(Path("restored"));
  ASSERT_TRUE(restored) << restored.error().message;
  const core::TaskId old{1}, next = (*restored)->NextId().value();
  EXPECT_EQ((*restored)->BooksOf(old), (*store)->BooksOf(old)) << "old files are still found";
  EXPECT_NE((*restored)->BooksOf(next).id, (*store)->BooksOf(next).id);
}

TEST_F(BackUpTest, ReplacesFilesOnlyOnRequestAndNeverThoseOfCarmad) {
  const Result<std::unique_ptr<Store>> store = Store::Open(State());
  ASSERT_TRUE(store);
  Put(**store, 1);
  ASSERT_TRUE(base::WriteFileAtomic(Path("copy"), "mine"));
  EXPECT_EQ(BackUp(State(), Path("copy"), false).error().code, ErrorCode::kConflict);
  EXPECT_EQ(*base::ReadFile(Path("copy"), 100), "mine");
  ASSERT_TRUE(BackUp(State(), Path("copy"), true));
  EXPECT_EQ(TasksIn(Path("copy")), 1U);
  ASSERT_TRUE(base::WriteFileAtomic(State() + "/tokens.json", "{}"));
  for (const char* own : {"carma.db", "carma.db-wal", "lock", "tokens.json", "gpus", "carmad.log"})
    EXPECT_EQ(BackUp(State(), State() + "/" + own, true).error().code, ErrorCode::kInvalid) << own;
  EXPECT_TRUE(BackUp(State(), State() + "/before.db", false));
  const std::string below = State() + "/attempts/1";
  std::filesystem::create_directories(below);
  std::filesystem::create_directory_symlink(below, Path("link"));
  for (const std::string& folder : {below, Path("link")})
    EXPECT_EQ(BackUp(State(), folder + "/start.json", true).error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(BackUp(State(), below + "/carma.db", false));
  EXPECT_EQ(BackUp(State(), dir_, true).error().code, ErrorCode::kConflict) << "a folder";
  EXPECT_EQ(BackUp(State(), Path("none/copy"), false).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(BackUp(Path("elsewhere"), Path("x"), false).error().code, ErrorCode::kNotFound);
}

TEST_F(BackUpTest, WorksOnAFileSystemWithoutHardLinks) {
  const Result<std::unique_ptr<Store>> store = Store::Open(State());
  ASSERT_TRUE(store);
  Put(**store, 1);
  has_hard_links = false;
  const Result<std::int64_t> copied = BackUp(State(), Path("copy"), false);
  has_hard_links = true;
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(Files(), 2U) << "the state folder and the copy, and nothing else";
  EXPECT_EQ(TasksIn(Path("copy")), 1U);
}

TEST_F(BackUpTest, ReportsAFullDisk) {
  {
    const Result<std::unique_ptr<Store>> store = Store::Open(State());
    ASSERT_TRUE(store);
    Put(**store, 1);
  }
  const std::string small = Path("small");
  ASSERT_EQ(::mkdir(small.c_str(), 0700), 0);
  const bool mounts = ::unshare(CLONE_NEWNS) == 0 &&
                      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("carma-test", small.c_str(), "tmpfs", 0, "size=16k") == 0;
  if (!mounts) GTEST_SKIP() << "needs permission to mount";
  const Result<std::int64_t> copied = BackUp(State(), small + "/copy", false);
  ::umount2(small.c_str(), MNT_DETACH);
  ASSERT_FALSE(copied);
  EXPECT_THAT(copied.error().message, HasSubstr("/carma.db to " + small + "/copy: "));
  EXPECT_THAT(copied.error().message, HasSubstr("(no space left for the copy)"));
}

TEST_F(BackUpTest, RefusesALinkInPlaceOfTheDatabase) {
  ASSERT_EQ(::mkdir(State().c_str(), 0700), 0);
  std::filesystem::create_symlink("elsewhere", State() + "/carma.db");
  EXPECT_THAT(BackUp(State(), Path("copy"), false).error().message,
              HasSubstr("is a symbolic link, expected a regular file"));
}

TEST_F(BackUpTest, ADamagedDatabaseLeavesNoCopy) {
  ASSERT_EQ(::mkdir(State().c_str(), 0700), 0);
  ASSERT_TRUE(base::WriteFileAtomic(State() + "/carma.db", std::string(8'192, 'x')));
  const Result<std::int64_t> copied = BackUp(State(), Path("copy"), false);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, ErrorCode::kCorrupt) << copied.error().message;
  EXPECT_EQ(Files(), 1U) << "no incomplete file is left";
}

}  // namespace
}  // namespace carma::store
