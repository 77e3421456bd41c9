#include "cli/bars.h"

#include <gtest/gtest.h>

#include <limits>

namespace carma::cli {
namespace {

TEST(SmallBars, HaveEightHeightsAndZeroIsNotBlank) {
  struct Case {
    const char* name;
    std::optional<double> share;
    const char* block;
    const char* letter;
  };
  const Case cases[] = {{"not known", std::nullopt, " ", " "},
                        {"no number", std::numeric_limits<double>::quiet_NaN(), " ", " "},
                        {"nothing", 0, "▁", "."},
                        {"a little", 0.01, "▁", "."},
                        {"a seventh", 1.0 / 7, "▂", "."},
                        {"a half", 0.5, "▅", "="},
                        {"two sevenths", 2.0 / 7, "▃", "-"},
                        {"nearly full", 0.9, "▇", "#"},
                        {"full", 1, "█", "#"},
                        {"more than full", 4, "█", "#"},
                        {"less than nothing", -1, "▁", "."}};
  for (const Case& each : cases) {
    EXPECT_EQ(SmallBar(each.share), each.block) << each.name;
    EXPECT_EQ(SmallBar(each.share, false), each.letter) << each.name;
  }
}

}  // namespace
}  // namespace carma::cli
