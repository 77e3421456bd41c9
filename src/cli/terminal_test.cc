#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace carma::cli {
namespace {

TEST(Screen, WrapsLongLines) {
  const Screen screen{.width = 20};
  EXPECT_EQ(WrapTo("one two three four five six\nshort\n", screen),
            "one two three four\n  five six\nshort\n");
  EXPECT_EQ(WrapTo("  Label  one two three four five", screen, 9),
            "  Label  one two\n         three four\n         five");
  EXPECT_EQ(WrapTo(std::string(25, 'x'), screen), std::string(20, 'x') + "\n  xxxxx");
  EXPECT_EQ(WrapTo("äöü äöü äöü äöü äöü äöü", screen), "äöü äöü äöü äöü äöü\n  äöü");
  EXPECT_EQ(WrapTo("one two three four five six", {}), "one two three four five six");
  EXPECT_EQ(WrapTo("abc", {.width = 1}), "a\nb\nc");
  EXPECT_EQ(WrapTo("", screen), "");
}

TEST(Screen, RedrawnTextNeverScrolls) {
  const std::string clear = "\033[H\033[J";
  const Screen screen{.width = 20, .height = 4};
  EXPECT_EQ(Redrawn("a\nb\nc\n", screen), clear + "a\nb\nc\n");
  EXPECT_EQ(Redrawn("a\nb\nc\nd\n", screen), clear + "a\nb\n… 2 more lines\n");
  EXPECT_EQ(Redrawn("", screen), clear);
  EXPECT_EQ(Redrawn("a\nb\nc\nd\n", {.width = 20}), clear + "a\nb\nc\nd\n") << "unknown height";
}

TEST(Screen, TextIsCutByCharacters) {
  EXPECT_EQ(CutTo("héllo", 5), "héllo");
  EXPECT_EQ(CutTo("héllo", 3), "hé…");
  EXPECT_EQ(CutTo("héllo", 1), "…");
  EXPECT_EQ(ShownWidth("h…é"), 3u);
}

}  // namespace
}  // namespace carma::cli
