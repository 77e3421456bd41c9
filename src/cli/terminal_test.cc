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

TEST(Screen, TextIsCutByColumns) {
  EXPECT_EQ(CutTo("héllo", 5), "héllo");
  EXPECT_EQ(CutTo("héllo", 3), "hé…");
  EXPECT_EQ(CutTo("héllo", 1), "…");
  EXPECT_EQ(ShownWidth("h…é"), 3u);
}

TEST(Screen, WideCharactersTakeTwoColumns) {
  EXPECT_EQ(ShownWidth("训练 模型"), 9u);
  EXPECT_EQ(ShownWidth("ハン한🚀𠀀▁│"), 12u);
  EXPECT_EQ(ShownWidth("✅✨⚡⏳❌⭐🟢"), 14u);
  EXPECT_EQ(ShownWidth("✓→█•"), 4u);
  EXPECT_EQ(ShownWidth("e\u0301"), 1u) << "a combining accent";
  EXPECT_EQ(CutTo("训练模型", 8), "训练模型");
  EXPECT_EQ(CutTo("训练模型", 7), "训练模…");
  EXPECT_EQ(CutTo("训练模型", 6), "训练…") << "half a character cannot be shown";
  EXPECT_EQ(CutTo("训练模型", 2), "…");
  EXPECT_EQ(WrapTo("训练模型", {.width = 5}, 0), "训练\n模型");
  EXPECT_EQ(WrapTo("训练", {.width = 1}), "训练");
  EXPECT_EQ(WrapTo("训练", {.width = 2}, 1), "训\n 练");
}

}  // namespace
}  // namespace carma::cli
