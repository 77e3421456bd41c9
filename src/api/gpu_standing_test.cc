#include "api/gpu_standing.h"

#include <gtest/gtest.h>

#include <string>

#include "base/text.h"

namespace carma::api {
namespace {

// The GPU states listed in the API's description.
std::string DescribedWords() {
  std::string words;
  const auto note = [&](const char* name, const auto&, const char* = "",
                        const base::FieldRule& rule = {}) {
    if (std::string_view(name) == "state") words = rule.words;
  };
  const GpuView gpu;
  GpuView::VisitFields(note, gpu);
  return words;
}

TEST(GpuStanding, TheDescriptionOfTheApiListsItsWords) {
  std::vector<std::string> words;
  for (const auto& [standing, word] : kGpuStandingWords) words.emplace_back(word);
  EXPECT_EQ(base::Join(words, ","), DescribedWords());
}

TEST(GpuStanding, FindsAStateByItsWord) {
  EXPECT_EQ(StandingOf({.state = "drng"}), GpuStanding::kDraining);
  EXPECT_EQ(StandingOf({.state = "asleep"}), std::nullopt) << "from a newer daemon";
  EXPECT_EQ(StandingOf({}), std::nullopt);
}

}  // namespace
}  // namespace carma::api
