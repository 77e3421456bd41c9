#include "task/describe/shell_words.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace carma::task {
namespace {

using Words = std::vector<std::string>;

TEST(SplitShellWords, QuotesAsAShellDoes) {
  const std::vector<std::pair<const char*, Words>> cases{
      {"", {}},
      {"python train.py --b 128", {"python", "train.py", "--b", "128"}},
      {"a 'b c' \"d e\" f\\ g", {"a", "b c", "d e", "f g"}},
      {"--x='a b'c", {"--x=a bc"}},
      {"a '' \"\"", {"a", "", ""}},
      {R"("a\"b\\c\n")", {R"(a"b\c\n)"}},
      {"a # comment", {"a"}},
      {"a#b", {"a#b"}},
      {"'$(x) ; y'", {"$(x) ; y"}},
      {"*.csv costs 5$", {"*.csv", "costs", "5$"}},
      {"x a=b", {"x", "a=b"}},
  };
  for (const auto& [line, words] : cases) {
    const auto split = SplitShellWords(line, WordRules::kCommand);
    ASSERT_TRUE(split) << line << split.error().message;
    EXPECT_EQ(*split, words) << line;
  }
}

TEST(SplitShellWords, RefusesTextThatNeedsAShell) {
  for (const char* line : {"a; b", "a | b", "a & b", "a > f", "a < f", "a `b`", "a $(b)", "a $HOME",
                           "a \"${HOME}\"", "a \"`b`\"", "A=1 b", "a 'b", "a \"b", "a \\"}) {
    EXPECT_FALSE(SplitShellWords(line, WordRules::kCommand)) << line;
  }
  EXPECT_TRUE(SplitShellWords("--export=A=$HOME;x", WordRules::kWords));
  EXPECT_NE(SplitShellWords("a | b", WordRules::kCommand).error().message.find("script"),
            std::string::npos);
}

}  // namespace
}  // namespace carma::task
