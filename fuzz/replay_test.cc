// Runs every corpus file, whole and truncated, through the function that libFuzzer drives.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "entries.h"
#include "test_paths.h"

namespace carma::fuzz {
namespace {

std::vector<std::string> CorpusFiles(const std::string& name) {
  std::vector<std::string> files;
  std::error_code error;
  const std::string folder = std::string(CARMA_SOURCE_DIR) + "/fuzz/corpus/" + name;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Corpus, IsAcceptedOrRefusedWithoutACrash) {
  for (const Entry& entry : kEntries) {
    SCOPED_TRACE(entry.name);
    entry.run("");
    const std::vector<std::string> files = CorpusFiles(entry.name);
    EXPECT_FALSE(files.empty());
    for (const std::string& file : files) {
      SCOPED_TRACE(file);
      const auto bytes = base::ReadFile(file, 1 << 20);
      ASSERT_TRUE(bytes) << bytes.error().message;
      const std::size_t step = std::max<std::size_t>(1, bytes->size() / 64);
      for (std::size_t size = 0; size < bytes->size(); size += step) {
        entry.run(std::string_view(*bytes).substr(0, size));
      }
      entry.run(*bytes);
    }
  }
}

}  // namespace
}  // namespace carma::fuzz
