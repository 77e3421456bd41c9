#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "base/clock.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/process_id.h"
#include "base/text.h"
#include "base/words.h"

namespace carma::base {
namespace {

TEST(Text, MemorySizesAreMibRoundedUp) {
  const struct {
    const char* text;
    std::int64_t mib;
  } cases[] = {{"800", 800}, {"800M", 800}, {"12G", 12288},   {"1.5GiB", 1536},
               {"1k", 1},    {"2048kb", 2}, {" 8 gb ", 8192}, {"0", 0}};
  for (const auto& c : cases) {
    const Result<std::int64_t> parsed = ParseMemoryMib(c.text);
    ASSERT_TRUE(parsed) << c.text;
    EXPECT_EQ(*parsed, c.mib) << c.text;
  }
  for (const char* bad : {"", "G", "-1", "12X", "1e99", "nan", "inf", "12G8"})
    EXPECT_FALSE(ParseMemoryMib(bad)) << bad;
}

TEST(Text, SpansReadSlurmAndUnitForms) {
  const struct {
    const char* text;
    std::int64_t seconds;
  } cases[] = {{"90s", 90},       {"15m", 900},   {"1h30m", 5400},   {"2d", 172800},
               {"10", 600},       {"10:30", 630}, {"1:00:00", 3600}, {"1-0", 86400},
               {"1-2:30", 95400}, {"0-0:0:5", 5}};
  for (const auto& c : cases) {
    const Result<Duration> parsed = ParseSpan(c.text);
    ASSERT_TRUE(parsed) << c.text;
    EXPECT_EQ(parsed->count(), c.seconds * 1000) << c.text;
  }
  for (const char* bad : {"", "-5", "5x", "1:2:3:4", "1-", "-", ":", "99999999999h", "h"})
    EXPECT_FALSE(ParseSpan(bad)) << bad;
  EXPECT_EQ(ParseSpan("100000d").error().message,
            "'100000d' is not a time span of at most ten years (90s, 15m, 12h, 2d, MIN, H:M:S or "
            "D-H:M:S)");
}

TEST(Text, TimesAreThoseOfTheLocalClock) {
  const std::string local = FormatTime(FromMs(1'772'370'359'000));
  EXPECT_EQ(LocalTimes("Not before 2026-03-01T13:05:59.120Z, or 2026-03-01T13:05:59Z."),
            "Not before " + local + ", or " + local + ".");
  EXPECT_EQ(LocalTimes("2026-03-01T13:05 and 2026-03-01T13:05:59.xZ"),
            "2026-03-01T13:05 and 2026-03-01T13:05:59.xZ");
}

TEST(Text, DetectsInvalidUtf8AndMakesItPrintable) {
  EXPECT_TRUE(IsUtf8("größe ≤ 5"));
  for (const char* bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "abc\xe2\x82", "\xf5\x80\x80\x80"})
    EXPECT_FALSE(IsUtf8(bad));
  EXPECT_EQ(Printable("a\nb\xff", 100), "a?b?");
}

TEST(Text, RecognisesInvisibleCharactersWithAnEffect) {
  const struct {
    const char* what;
    const char* text;
    const char* shown;  // null: plain text
  } cases[] = {
      {"letters of all kinds", "größe 日本 ≤ שלום", nullptr},
      {"a no-break space", "a\u00a0b", nullptr},
      {"joined emoji", "👩\u200d🔬", nullptr},
      {"a bell", "a\ab", "a?b"},
      {"DEL", "a\x7f", "a?"},
      {"the first of C1", "a\u0080", "a?"},
      {"CSI of 8-bit terminals", "\u009b31mred", "?31mred"},
      {"the last of C1", "\u009f", "?"},
      {"Arabic letter mark", "\u061c", "?"},
      {"direction marks", "a\u200e\u200fb", "a??b"},
      {"a direction override", "exe.\u202egnp", "exe.?gnp"},
      {"embeddings", "\u202a\u202b\u202c\u202d", "????"},
      {"isolates", "\u2066\u2067\u2068\u2069", "????"},
      {"line separators", "a\u2028b\u2029", "a?b?"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(HasControls(c.text), c.shown != nullptr) << c.what;
    EXPECT_EQ(Printable(c.text, 100), c.shown != nullptr ? c.shown : c.text) << c.what;
  }
  EXPECT_FALSE(HasControls("\x9b is no UTF-8"));
}

TEST(Log, LargeNumbersHaveNoExponent) {
  EXPECT_EQ(Field("by_s", 99'827'200.0).value, "99827200");
  EXPECT_EQ(Field("share", 0.25).value, "0.25");
}

TEST(Json, BrokenTextIsRefusedWithThePlace) {
  EXPECT_FALSE(ParseJson("{\"a\":1"));
  EXPECT_NE(ParseJson("{\"a\":1,\"a\":2}").error().message.find("duplicate key 'a'"),
            std::string::npos);
  EXPECT_NE(ParseJson(std::string(100, '[')).error().message.find("deeper"), std::string::npos);
  EXPECT_FALSE(ParseJson("\"\xff\""));
}

TEST(Json, TheReaderNamesTheFieldThatIsWrong) {
  const Json json = *ParseJson(R"({"gpus": 70, "name": "x", "extra": 1})");
  int gpus = 1;
  JsonReader in(json, "/tasks/3");
  in.Get("gpus", gpus, 1, 64);
  ASSERT_TRUE(in.error());
  EXPECT_EQ(in.error()->message, "/tasks/3/gpus: expected a whole number from 1 to 64");
  JsonReader second(json, "");
  second.Raw("gpus");
  second.Raw("name");
  second.NoOthers();
  EXPECT_EQ(second.error()->message, "/extra: unknown field");
}

TEST(Csv, QuotedCellsCommentsAndLineNumbers) {
  const Result<CsvTable> table =
      CsvTable::Parse("# source\na,b\n1,\"x,\"\"y\"\"\"\r\n\n2,z\n", {"a", "b"});
  ASSERT_TRUE(table);
  ASSERT_EQ(table->size(), 2u);
  EXPECT_EQ(table->Row(0).Text("b"), "x,\"y\"");
  EXPECT_EQ(table->Row(1).line(), 5);
  EXPECT_EQ(CsvTable::Parse("a,b\n1\n", {}).error().message, "line 2: 1 column, expected 2");
  EXPECT_EQ(CsvTable::Parse("a,b\n1\n", {}, 10, "t.csv").error().message,
            "t.csv:2: 1 column, expected 2");
  EXPECT_EQ(CsvTable::Parse("a,b\n1,2,\n", {}).error().message,
            "line 2: 3 columns, expected 2; remove the comma at the end");
  EXPECT_EQ(CsvTable::Parse("# x\na,b, a\n1,2,3\n", {}).error().message,
            "line 2: two columns are named 'a'; rename or remove one");
  EXPECT_TRUE(CsvTable::Parse("a,,\n1,2,3\n", {"a"})) << "unnamed columns may repeat";
  EXPECT_FALSE(CsvTable::Parse("a\n\"open\n", {}));
  EXPECT_EQ(table->Row(0).Required("b", 0, 1).error().code, ErrorCode::kInvalid);
}

TEST(Csv, ACellIsReadBackAsItWasWritten) {
  for (const std::string text : {"plain", "a,b", "say \"no\"", ""}) {
    const Result<CsvTable> table = CsvTable::Parse("a,b\n" + CsvCell(text) + ",1\n", {"a"});
    ASSERT_TRUE(table);
    EXPECT_EQ(table->Row(0).Text("a"), text);
  }
  EXPECT_EQ(CsvCell("plain"), "plain");
}

TEST(Csv, ACompressedFileIsNamedAsOne) {
  const std::string path = ::testing::TempDir() + "/carma_csv_test.gz";
  ASSERT_TRUE(WriteFileAtomic(path, "\x1F\x8B\x08"));
  EXPECT_EQ(CsvTable::Read(path, {"a"}, 100).error().message,
            path + ": a gzip file; use gunzip first");
}

TEST(Process, ThisProcessIsAliveAndAnotherStartTimeIsNot) {
  ProcessId self = SelfProcess();
  EXPECT_TRUE(Alive(self));
  ++self.start_ticks;
  EXPECT_FALSE(Alive(self));
}

TEST(File, AtomicWriteReplacesAndBoundedReadRefuses) {
  const std::string path = ::testing::TempDir() + "/carma_file_test";
  ASSERT_TRUE(WriteFileAtomic(path, "one"));
  ASSERT_TRUE(WriteFileAtomic(path, "second"));
  EXPECT_EQ(*ReadFile(path, 100), "second");
  EXPECT_EQ(ReadFile(path, 5).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(ReadFile(path + ".missing", 5).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadFile("/proc", 5).error().code, ErrorCode::kInvalid);
}

class FolderForAll : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/carma-file-XXXXXX";
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    ASSERT_TRUE(WriteFileAtomic(dir_ + "/own", "old"));
    shared_ = dir_ + "/shared";
    ASSERT_TRUE(MakeDirs(shared_));
    ASSERT_EQ(::chmod(shared_.c_str(), 01777), 0);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Link(const std::string& name, const std::string& to, bool anothers) {
    const std::string path = shared_ + "/" + name;
    EXPECT_EQ(::symlink(to.c_str(), path.c_str()), 0);
    EXPECT_TRUE(!anothers || ::lchown(path.c_str(), 65'534, 65'534) == 0);
    return path;
  }

  std::string dir_, shared_;
};

TEST_F(FolderForAll, OurOwnLinkIsFollowed) {
  const std::string link = Link("link", "../own", false);
  ASSERT_TRUE(WriteFileAtomic(link, "new"));
  EXPECT_EQ(*ReadFile(dir_ + "/own", 100), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  ASSERT_TRUE(RewriteFileAtomic(link, "newer"));
  EXPECT_EQ(*ReadFile(dir_ + "/own", 100), "newer");
  EXPECT_FALSE(RewriteFileAtomic(Link("round", "round", false), "x"));
}

TEST_F(FolderForAll, AnotherUsersLinkIsNotFollowed) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to change a link's owner";
  const std::string link = Link("link", dir_ + "/own", true);
  const std::string folder = Link("folder", dir_, true), null = Link("null", "/dev/null", true);
  const std::string ours = dir_ + "/ours";
  ASSERT_EQ(::symlink(link.c_str(), ours.c_str()), 0);
  for (const std::string& path : {link, folder + "/own", null, ours})
    EXPECT_EQ(WriteFileAtomic(path, "new").error().code, ErrorCode::kDenied) << path;
  EXPECT_EQ(RewriteFileAtomic(link, "new").error().code, ErrorCode::kDenied);
  EXPECT_EQ(*ReadFile(dir_ + "/own", 100), "old");
  ASSERT_EQ(::chmod(shared_.c_str(), 0755), 0);
  EXPECT_TRUE(WriteFileAtomic(link, "new")) << "other users can no longer create links there";
  EXPECT_EQ(*ReadFile(dir_ + "/own", 100), "new");
}

TEST_F(FolderForAll, ALinkInPlaceOfTheDraftLeadsNowhere) {
  Link("file.tmp." + std::to_string(::getpid()), "../own", false);
  const std::string file = shared_ + "/file";
  ASSERT_TRUE(WriteFileAtomic(file, "new"));
  EXPECT_EQ(*ReadFile(dir_ + "/own", 100), "old");
  EXPECT_EQ(*ReadFile(file, 100), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(file));
  ASSERT_TRUE(WriteFileAtomic(file, "newer"));
  const std::filesystem::directory_iterator left(shared_);
  EXPECT_EQ(std::distance(begin(left), end(left)), 1) << "no draft is left";
}

TEST(Clock, AScaledClockRunsFasterAndWaitsShorter) {
  SystemClock clock(100.0);
  EXPECT_EQ(clock.RealSpan(Duration(1000)), std::chrono::milliseconds(10));
  const Time first = clock.Now();
  while (clock.Now() == first) {
  }
  EXPECT_GT(clock.Now(), first);
}

enum class Colour { kRed, kGreen };
constexpr std::pair<Colour, std::string_view> kColourWords[] = {
    {Colour::kRed, "red"}, {Colour::kGreen, "green"}, {Colour::kGreen, "verdant"}};

}  // namespace
template <>
inline constexpr Words<Colour> kWordsOf<Colour> = kColourWords;
namespace {

TEST(Words, OneTableServesWritingReadingAndMessages) {
  EXPECT_EQ(WordOf(Colour::kGreen), "green");
  EXPECT_EQ(FromWord<Colour>("verdant"), Colour::kGreen);
  EXPECT_EQ(FromWord<Colour>("Red"), std::nullopt);
  EXPECT_EQ(AllWords<Colour>(), "red, green or verdant");
}

}  // namespace
}  // namespace carma::base
