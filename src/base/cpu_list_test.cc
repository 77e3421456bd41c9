#include "base/cpu_list.h"

#include <gtest/gtest.h>

namespace carma::base {
namespace {

TEST(CpuList, WritesRangesAsTheKernelDoes) {
  EXPECT_EQ(CpuListText({}), "");
  EXPECT_EQ(CpuListText({5}), "5");
  EXPECT_EQ(CpuListText({8, 0, 1, 2, 3}), "0-3,8");
  EXPECT_EQ(CpuListText({0, 2, 3, 3}), "0,2-3");
}

TEST(CpuList, ReadsWhatItWrites) {
  EXPECT_EQ(ParseCpuList("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(ParseCpuList("4,1-2,2"), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(ParseCpuList(" \n"), (std::vector<int>{}));
}

TEST(CpuList, RefusesOtherTexts) {
  for (const char* text : {"a", "1-", "-1", "3-1", "0,,1", "0-70000", "1;2"})
    EXPECT_EQ(ParseCpuList(text), std::nullopt) << text;
}

}  // namespace
}  // namespace carma::base
