#include "task/shim/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/unique_fd.h"

namespace carma::task {
namespace {

using ::testing::HasSubstr;

std::string TempDir() {
  std::string path = ::testing::TempDir() + "carma-output-XXXXXX";
  return ::mkdtemp(path.data());
}

std::string Read(const std::string& path) {
  return base::ReadFile(path, 1 << 20).value_or("(missing)");
}

TEST(OutputFile, TheFirstAttemptEmptiesTheFileAndLaterOnesAppend) {
  const std::string path = TempDir() + "/out";
  ASSERT_TRUE(base::WriteFileAtomic(path, "old\n"));
  {
    OutputFile file = OutputFile::Open(path, /*append=*/false, {}).value();
    file.Write("first\n");
    file.Close();
  }
  OutputFile file = OutputFile::Open(path, /*append=*/true, {}).value();
  file.Write("second\n");
  file.Close();
  EXPECT_EQ(Read(path), "first\nsecond\n");
}

TEST(OutputFile, RotationKeepsWholeLinesAndTheNewestFiles) {
  const std::string path = TempDir() + "/out";
  OutputFile file = OutputFile::Open(path, false, {.max_bytes = 10, .rotations = 2}).value();
  file.Write("aaaa\nbbbb\ncccc\n");  // a file holds two lines
  file.Write("dddd\neeee\n");
  file.Write("ffff\ngg");
  file.Write("gg\nhhhh\n");
  file.Close();
  EXPECT_EQ(Read(path + ".2"), "cccc\ndddd\n");
  EXPECT_EQ(Read(path + ".1"), "eeee\nffff\n");
  EXPECT_EQ(Read(path), "gggg\nhhhh\n");
  EXPECT_FALSE(base::Exists(path + ".3"));
  EXPECT_EQ(file.dropped_bytes(), 0);
}

TEST(OutputFile, ALineLongerThanAFileIsCut) {
  const std::string path = TempDir() + "/out";
  OutputFile file = OutputFile::Open(path, false, {.max_bytes = 4, .rotations = 3}).value();
  file.Write("abcdefghij");
  EXPECT_EQ(Read(path + ".2") + Read(path + ".1") + Read(path), "abcdefghij");
}

TEST(OutputFile, WithoutRotationsTheFileIsEmptied) {
  const std::string path = TempDir() + "/out";
  OutputFile file = OutputFile::Open(path, false, {.max_bytes = 8, .rotations = 0}).value();
  for (int i = 0; i < 100; ++i) file.Write("line\n");
  file.Close();
  EXPECT_EQ(Read(path), "line\n");
  EXPECT_FALSE(base::Exists(path + ".1"));
}

TEST(OutputFile, AFileThatTheUserMovesIsKeptAndANewOneIsMade) {
  for (const int rotations : {0, 1}) {
    const std::string dir = TempDir(), path = dir + "/out", kept = dir + "/kept";
    const OutputFile::Limits limits{.max_bytes = 10, .rotations = rotations};
    OutputFile file = OutputFile::Open(path, false, limits).value();
    file.Write("one\n");
    ASSERT_EQ(::rename(path.c_str(), kept.c_str()), 0);
    file.Write("two\n");
    EXPECT_EQ(Read(kept), "one\ntwo\n") << "as with any program";
    file.Write("three\n");
    EXPECT_EQ(Read(kept), "one\ntwo\n");
    EXPECT_EQ(Read(path), "three\n");
    file.Write("four\n");
    EXPECT_EQ(Read(path), "four\n") << "the limit holds for the new file";
    EXPECT_EQ(Read(kept), "one\ntwo\n");
    EXPECT_EQ(file.dropped_bytes(), 0);
  }
}

TEST(OutputFile, AFullFileIsKeptIfNoNewOneCanBeCreated) {
  const std::string path = TempDir() + "/out";
  OutputFile file = OutputFile::Open(path, false, {.max_bytes = 10, .rotations = 2}).value();
  file.Write("one line\n");
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{1, usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);  // as if a quota allowed no further file
  file.Write("two\n");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(Read(path), "one line\ntwo\n");
  EXPECT_FALSE(base::Exists(path + ".1"));
  file.Write("three\n");
  file.Write("four\n");
  EXPECT_EQ(Read(path + ".1"), "one line\ntwo\nthree\n") << "the next rotation works again";
  EXPECT_EQ(Read(path), "four\n");
}

TEST(OutputFile, AFileThatIsDeletedWithItsFolderStaysWithinTheLimit) {
  const std::string dir = TempDir() + "/removed", path = dir + "/out";
  OutputFile file = OutputFile::Open(path, false, {.max_bytes = 10, .rotations = 1}).value();
  const base::UniqueFd deleted(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::filesystem::remove_all(dir);
  for (int i = 0; i < 10; ++i) file.Write("a line\n");
  struct stat st {};
  ASSERT_EQ(::fstat(deleted.get(), &st), 0);
  EXPECT_LE(st.st_size, 10);
}

TEST(OutputFile, ALinkStaysALinkAndTheFileItselfIsRotated) {
  const std::string dir = TempDir(), link = dir + "/link";
  ASSERT_EQ(::symlink((dir + "/real").c_str(), link.c_str()), 0);
  OutputFile file = OutputFile::Open(link, false, {.max_bytes = 6, .rotations = 1}).value();
  file.Write("older\nnewer\n");
  EXPECT_EQ(Read(dir + "/real.1"), "older\n");
  EXPECT_EQ(Read(dir + "/real"), "newer\n");
  EXPECT_EQ(Read(link), "newer\n");
  EXPECT_FALSE(base::Exists(link + ".1"));
}

TEST(OutputFile, AcceptsDevicesAndDoesNotRotateThem) {
  OutputFile file = OutputFile::Open("/dev/null", false, {.max_bytes = 1, .rotations = 1}).value();
  file.Write("much more than one byte\n");
  EXPECT_FALSE(base::Exists("/dev/null.1"));
  EXPECT_EQ(file.dropped_bytes(), 0);
}

TEST(OutputFile, MissingFoldersAreMade) {
  const std::string path = TempDir() + "/logs/of/today/out";
  OutputFile::Open(path, false, {}).value().Write("here\n");
  EXPECT_EQ(base::ReadFile(path, 100).value_or(""), "here\n");
}

TEST(OutputFile, ReportsWhichFileCannotBeOpenedAndWhy) {
  const std::string path = "/proc/none/out";
  const Result<OutputFile> file = OutputFile::Open(path, false, {});
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr(path + "': No such file or directory"));
}

TEST(OutputFile, DoesNotWaitForAPipeWithoutReader) {
  const std::string path = TempDir() + "/fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(OutputFile::Open(path, false, {}));
}

TEST(OutputFile, AFullDiskDropsAndCounts) {
  OutputFile file = OutputFile::Open("/dev/full", false, {}).value();
  file.Write("0123456789");
  file.Write("0123456789");
  file.Close();
  EXPECT_EQ(file.dropped_bytes(), 20);
  EXPECT_EQ(file.last_error(), ENOSPC);
}

TEST(OutputFile, ContinuesAfterAFullDiskAndNotesTheGap) {
  const std::string path = TempDir() + "/out";
  OutputFile file = OutputFile::Open(path, false, {}).value();
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{4, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  file.Write("abcdefgh");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  file.Write("more\n");
  file.Close();
  EXPECT_EQ(file.dropped_bytes(), 4);
  EXPECT_EQ(Read(path), "abcdmore\n\ncarma: 4 bytes of output were lost: File too large\n");
}

TEST(OutputFile, RecognisesAFileUnderTwoNames) {
  const std::string dir = TempDir();
  OutputFile a = OutputFile::Open(dir + "/out", false, {}).value();
  OutputFile b = OutputFile::Open(dir + "/./out", true, {}).value();
  OutputFile c = OutputFile::Open(dir + "/err", true, {}).value();
  EXPECT_TRUE(a.SameFile(b));
  EXPECT_FALSE(a.SameFile(c));
}

TEST(Tail, KeepsTheLastBytes) {
  Tail tail(8);
  EXPECT_EQ(tail.Text(), "");
  tail.Append("abc");
  EXPECT_EQ(tail.Text(), "abc");
  tail.Append("defgh");
  EXPECT_EQ(tail.Text(), "abcdefgh");
  tail.Append("ij");
  EXPECT_EQ(tail.Text(), "cdefghij");
  tail.Append("0123456789");
  EXPECT_EQ(tail.Text(), "23456789");
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    const std::string piece(static_cast<std::size_t>(i % 11), static_cast<char>('a' + i % 26));
    all += piece;
    tail.Append(piece);
  }
  EXPECT_EQ(tail.Text(), all.substr(all.size() - 8));
}

}  // namespace
}  // namespace carma::task
