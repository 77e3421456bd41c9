#include "task/describe/options.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace carma::task {
namespace {

TEST(SubmitOptions, HaveEachNameAndLetterOnce) {
  std::set<std::string_view> names;
  std::set<char> letters;
  for (const OptionInfo& info : SubmitOptions()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(info.letter == 0 || letters.insert(info.letter).second) << info.name;
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_EQ(FindOption(info.name), &info);
    if (info.letter != 0) {
      EXPECT_EQ(FindOption(std::string(1, info.letter)), &info);
    }
  }
  EXPECT_EQ(FindOption("nonsense"), nullptr);
  EXPECT_EQ(FindOption(""), nullptr);
}

}  // namespace
}  // namespace carma::task
