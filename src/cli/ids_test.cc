#include "cli/ids.h"

#include <gtest/gtest.h>

namespace carma::cli {
namespace {

TEST(Ids, ReadEveryForm) {
  const std::vector<std::uint64_t> own = {90, 80, 70};
  const std::pair<std::vector<std::string>, std::vector<std::uint64_t>> cases[] = {
      {{"42"}, {42}},         {{"42,43"}, {42, 43}}, {{"40-42", "7"}, {40, 41, 42, 7}},
      {{"5,4-6"}, {5, 4, 6}}, {{"@"}, {90}},         {{"@~2,@"}, {70, 90}},
      {{"40_*"}, {40}},
  };
  for (const auto& [words, ids] : cases) {
    const auto ranges = ParseTaskRanges(words);
    ASSERT_TRUE(ranges) << words[0];
    EXPECT_EQ(ExpandRanges(*ranges, own).value(), ids) << words[0];
  }
  EXPECT_EQ(BackNeeded(*ParseTaskRanges({"@~2,@"})), 3u);
  EXPECT_EQ(BackNeeded(*ParseTaskRanges({"42"})), 0u);
}

TEST(Ids, RefuseInvalidForms) {
  for (const char* word : {"", "x", "0", "-1", "4-3", "1-", "-", "1,,2", "@1", "@~", "@~x",
                           "1-99999999999", "99999999999999999999", "1-1000000,1"}) {
    const auto ranges = ParseTaskRanges({word});
    ASSERT_FALSE(ranges) << word;
    EXPECT_EQ(ranges.error().code, ErrorCode::kInvalid);
  }
  const auto none = ExpandRanges(*ParseTaskRanges({"@~1"}), {90});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
}

TEST(Ids, RangesAreWrittenAsTheyAreRead) {
  EXPECT_EQ(RangeText(42, 1), "42");
  EXPECT_EQ(RangeText(42, 10), "42-51");
}

}  // namespace
}  // namespace carma::cli
