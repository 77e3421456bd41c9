#include "api/url.h"

#include <gtest/gtest.h>

namespace carma::api {
namespace {

using Query = std::vector<std::pair<std::string, std::string>>;

TEST(ParseTarget, SplitsAndDecodes) {
  struct Case {
    const char* target;
    const char* path;
    Query query;
  };
  const Case cases[] = {
      {"/", "/", {}},
      {"/v1/tasks/42", "/v1/tasks/42", {}},
      {"/a%20b?x=1&y=%26%3d&z", "/a b", {{"x", "1"}, {"y", "&="}, {"z", ""}}},
      {"/a+b?q=a+b&&w=%2B", "/a+b", {{"q", "a b"}, {"w", "+"}}},
      {"/a?b=c?d", "/a", {{"b", "c?d"}}},
  };
  for (const Case& c : cases) {
    const auto parsed = ParseTarget(c.target);
    ASSERT_TRUE(parsed) << c.target;
    EXPECT_EQ(parsed->path, c.path);
    EXPECT_EQ(parsed->query, c.query) << c.target;
  }
}

TEST(ParseTarget, RefusesInvalidTargets) {
  for (const char* target :
       {"", "v1", "*", "http://x/", "/a%", "/a%2", "/a%zz", "/%00", "/?a=%00"}) {
    EXPECT_FALSE(ParseTarget(target)) << target;
  }
}

TEST(Escape, IsUndoneByParseTarget) {
  std::string every_byte;
  for (int c = 1; c < 256; ++c) every_byte.push_back(static_cast<char>(c));
  const auto parsed = ParseTarget("/x?v=" + Escape(every_byte));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->query[0].second, every_byte);
  const auto path = ParseTarget("/" + Escape(every_byte));
  ASSERT_TRUE(path);
  EXPECT_EQ(path->path, "/" + every_byte);
}

}  // namespace
}  // namespace carma::api
