#include "cli/client/output_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace carma::cli {
namespace {

class Output : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/carma-out-XXXXXX";
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    path_ = dir_ + "/task.out";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }

  // Returns the new text that the reader copies.
  std::string New(OutputReader& reader) {
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* out = ::open_memstream(&text, &size);
    const auto copied = reader.CopyNew(out);
    EXPECT_TRUE(copied) << copied.error().message;
    std::fclose(out);
    std::string result(text, size);
    std::free(text);
    return result;
  }

  std::string dir_;
  std::string path_;
};

TEST_F(Output, IsReadPieceByPiece) {
  Append("one\n");
  OutputReader reader(path_);
  ASSERT_TRUE(reader.Open());
  EXPECT_EQ(New(reader), "one\n");
  EXPECT_EQ(New(reader), "");
  Append("two");
  EXPECT_EQ(New(reader), "two");
}

TEST_F(Output, MayBeginLater) {
  OutputReader reader(path_);
  EXPECT_EQ(reader.Open().error().code, ErrorCode::kNotFound);
  EXPECT_EQ(New(reader), "");
  Append("here");
  EXPECT_EQ(New(reader), "here");
}

TEST_F(Output, IsFollowedThroughRotation) {
  Append("a");
  OutputReader reader(path_);
  ASSERT_TRUE(reader.Open());
  EXPECT_EQ(New(reader), "a");
  Append("b");
  std::filesystem::rename(path_, path_ + ".1");
  EXPECT_EQ(New(reader), "b");
  Append("c");
  EXPECT_EQ(New(reader), "c");
}

TEST_F(Output, IsReadFromTheStartAfterTruncation) {
  Append("first attempt\n");
  OutputReader reader(path_);
  ASSERT_TRUE(reader.Open());
  EXPECT_EQ(New(reader), "first attempt\n");
  std::filesystem::resize_file(path_, 0);
  Append("second\n");
  EXPECT_EQ(New(reader), "second\n");
}

TEST_F(Output, SkipsToTheLastLines) {
  struct Case {
    const char* what;
    std::string text;
    std::int64_t lines;
    std::string rest;
  };
  const std::string long_line(200'000, 'x');
  const Case cases[] = {
      {"two of three", "1\n2\n3\n", 2, "2\n3\n"},
      {"no newline at the end", "1\n2\n3", 2, "2\n3"},
      {"fewer lines than requested", "1\n2\n", 9, "1\n2\n"},
      {"none", "1\n2\n", 0, ""},
      {"an empty last line", "1\n\n", 1, "\n"},
      {"longer than a block", long_line + "\n" + long_line + "\n", 1, long_line + "\n"},
  };
  for (const Case& c : cases) {
    std::filesystem::remove(path_);
    Append(c.text);
    OutputReader reader(path_);
    ASSERT_TRUE(reader.Open());
    ASSERT_TRUE(reader.SkipToLast(c.lines));
    EXPECT_TRUE(New(reader) == c.rest) << c.what;
  }
}

TEST_F(Output, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  OutputReader reader(path_);
  const auto opened = reader.Open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace carma::cli
