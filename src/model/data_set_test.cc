#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "model/summary.h"

namespace carma::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataSet : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("carma-data-{}", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, std::string_view text) {
    const std::string path = folder_ / name;
    EXPECT_TRUE(base::WriteFileAtomic(path, text));
    return path;
  }
  static std::string Packed(const std::string& path) {
    auto bytes = base::ReadFile(path, 1 << 28);
    const std::string packed = path + ".gz";
    const gzFile file = ::gzopen(packed.c_str(), "wb9");
    EXPECT_EQ(::gzwrite(file, bytes->data(), static_cast<unsigned>(bytes->size())),
              static_cast<int>(bytes->size()));
    ::gzclose(file);
    return packed;
  }
  // The names of the models. If there was an error, its message is appended.
  static std::vector<std::string> Names(const std::string& path) {
    std::vector<std::string> names;
    const auto read =
        ForEachModel(path, [&](const LayerList& list) { names.push_back(list.model); });
    if (!read) names.push_back(read.error().message);
    return names;
  }

  std::filesystem::path folder_;
};

constexpr std::string_view kThree =
    "{\"model\":\"a\",\"layers\":[[\"Linear\",[-1,4],[-1,2],10,0]]}\n\n"
    "{\"model\":\"b\",\"layers\":[[\"ReLU\",[-1,4],[-1,4],0,1,0,0,\"act\"]]}\r\n"
    "{\"model\":\"c\",\"layers\":[[\"ReLU\",[-1,4],[-1,4],0]]}";

TEST_F(DataSet, IsReadLineByLine) {
  const std::string path = Write("three.jsonl", kThree);
  EXPECT_THAT(Names(path), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Names(Packed(path)), ElementsAre("a", "b", "c"));
}

TEST_F(DataSet, ReportsTheLineOfAMistake) {
  const std::string path =
      Write("bad.jsonl", std::string(kThree) + "\n{\"layers\":[[\"ReLU\",[-1,4],[-1,4],-5]]}\n");
  const auto names = Names(path);
  ASSERT_EQ(names.size(), 4U);
  EXPECT_THAT(names[3], HasSubstr("bad.jsonl:5: /layers/0/3: expected a whole number"));
}

TEST_F(DataSet, RejectsATruncatedFile) {
  const std::string packed = Packed(Write("cut.jsonl", kThree));
  std::filesystem::resize_file(packed, std::filesystem::file_size(packed) - 12);
  EXPECT_THAT(Names(packed).back(), HasSubstr("cannot be decompressed"));
}

TEST_F(DataSet, RejectsADecompressionBomb) {
  // A single line of 72 MiB of blanks, compressed to about 70 KiB.
  const std::string packed = Packed(Write("bomb.jsonl", std::string(72 << 20, ' ')));
  EXPECT_LT(std::filesystem::file_size(packed), 100'000U);
  EXPECT_THAT(Names(packed), ElementsAre(HasSubstr("bomb.jsonl.gz:1: the line exceeds")));
}

TEST_F(DataSet, MustBeAFile) {
  EXPECT_THAT(Names(folder_ / "none"), ElementsAre(HasSubstr("No such file")));
  EXPECT_THAT(Names(folder_), ElementsAre(HasSubstr("expected a regular file")));
}

}  // namespace
}  // namespace carma::model
