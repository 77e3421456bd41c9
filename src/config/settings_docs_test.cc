// Tests that the settings documentation is complete and correct.
#include "config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/text.h"
#include "config/keys.h"
#include "config/settings_fixture.h"
#include "test_paths.h"

namespace carma::config {
namespace {

using ::testing::HasSubstr;

TEST(SettingsDocs, AcceptsTheRecipesOfTheDocumentation) {
  const std::string text =
      *base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/docs/server/sharing.md", 1 << 20);
  const std::string begin = "```toml\n";
  int blocks = 0;
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    const std::string block = text.substr(at, text.find("```", at) - at);
    const Result<Loaded> loaded = LoadText("sharing.md", block, true);
    EXPECT_TRUE(loaded) << block << loaded.error().message;
    ++blocks;
  }
  EXPECT_EQ(blocks, 10);
}

TEST(SettingsDocs, TheDocumentationListsEveryKeyAsItIs) {
  const std::string text =
      *base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/docs/server/configuration.md", 1 << 20);
  std::vector<std::string> rows;
  for (const std::string_view line : base::Split(text, '\n')) {
    if (line.starts_with("- `") && line.find("` (`") != line.npos) rows.emplace_back(line);
  }
  std::vector<std::string> expected;
  for (const KeyInfo& key : Keys()) {
    const std::string values = key.type.starts_with('"') ? "; values: " + key.type : "";
    expected.push_back("- `" + key.name + "` (`" + key.default_value + "`" + values +
                       "): " + key.meaning + (key.live ? "" : " Needs a restart."));
  }
  EXPECT_EQ(rows, expected);
}

TEST(SettingsDocs, ListsTheQuantitiesOfOwnRules) {
  const std::string text =
      *base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/docs/server/policies.md", 1 << 20);
  for (const core::RuleQuantity& each : core::RuleQuantities()) {
    EXPECT_THAT(text, HasSubstr("| `" + std::string(each.name) + "` | " +
                                std::string(each.meaning) + " |\n"));
  }
}

TEST(SettingsDocs, TheExampleFileHoldsEveryKeyWithItsDefault) {
  std::string text =
      *base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/packaging/carma.toml", 1 << 20);
  ASSERT_TRUE(LoadText("packaging/carma.toml", text, true));
  std::string uncommented;  // "#key = value" is an example, "## text" explains
  for (const std::string_view line : base::Split(text, '\n')) {
    const bool example =
        line.starts_with('#') && line.size() > 1 && line[1] != '#' && line[1] != ' ';
    uncommented += std::string(line.substr(example ? 1 : 0)) + "\n";
  }
  const Loaded loaded = FromText(uncommented);
  for (const KeyInfo& key : Keys()) {
    EXPECT_EQ(loaded.origins.at(key.name).value, key.default_value) << key.name;
    EXPECT_THAT(loaded.origins.at(key.name).where, HasSubstr("f.toml:")) << key.name;
  }
}

}  // namespace
}  // namespace carma::config
