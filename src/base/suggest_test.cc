#include "base/suggest.h"

#include <gtest/gtest.h>

namespace carma::base {
namespace {

TEST(DidYouMean, NamesTheNearestWord) {
  const std::vector<std::string> known{"time", "title", "name", "gpus"};
  EXPECT_EQ(DidYouMean("tiem", known, 1), "time") << "swapped letters count as one error";
  EXPECT_EQ(DidYouMean("gpu", known, 2), "gpus");
  EXPECT_EQ(DidYouMean("account", known, 2), std::nullopt);
  EXPECT_EQ(DidYouMean("x", known, 2), std::nullopt);
  EXPECT_EQ(Suggestion("nmae", known), ", did you mean name?");
  EXPECT_EQ(Suggestion("memory", known), "");
  EXPECT_EQ(Suggestion("--foo", {"--qos", "--no-check"}), "") << "dashes are not letters";
  EXPECT_EQ(Suggestion("--qso", {"--qos"}), ", did you mean --qos?");
}

}  // namespace
}  // namespace carma::base
