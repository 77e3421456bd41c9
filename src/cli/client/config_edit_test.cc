#include "cli/client/config_edit.h"

#include <gtest/gtest.h>

namespace carma::cli {
namespace {

struct EditCase {
  const char* name;
  const char* before;
  std::vector<ConfigValue> values;
  const char* after;
};

TEST(WithValues, ChangesTheKeysAndNothingElse) {
  const EditCase cases[] = {
      {"a comment becomes a key",
       "# mine\n[daemon]\n## Port.\n#http_port = false\n#admins = []\n",
       {{"daemon.http_port", "8080"}},
       "# mine\n[daemon]\n## Port.\nhttp_port = 8080\n#admins = []\n"},
      {"a key takes precedence over its comment",
       "[daemon]\n#http_port = false\n  http_port=1 # one\n",
       {{"daemon.http_port", "2"}},
       "[daemon]\n#http_port = false\nhttp_port = 2 # one\n"},
      {"a # within quotes does not begin a comment",
       "[a]\nb = \"x # \\\" y\"\t#z\nc = ['#']\n",
       {{"a.b", "\"v\""}, {"a.c", "[]"}},
       "[a]\nb = \"v\"\t#z\nc = []\n"},
      {"the same word in another section is another key",
       "[a]\nmethod = 1\n[collocation]\n#method = \"auto\"\n",
       {{"collocation.method", "\"mps\""}},
       "[a]\nmethod = 1\n[collocation]\nmethod = \"mps\"\n"},
      {"a longer word is another key",
       "[policy]\n#orders = 1\n",
       {{"policy.order", "\"fair\""}},
       "[policy]\norder = \"fair\"\n#orders = 1\n"},
      {"a missing section is added",
       "[daemon]\nadmins = []",
       {{"policy.order", "\"fair\""}, {"policy.floor", "0"}},
       "[daemon]\nadmins = []\n\n[policy]\nfloor = 0\norder = \"fair\"\n"},
      {"a key written with its section",
       "# mine\npolicy.order = \"fifo\"\n",
       {{"policy.order", "\"fair\""}, {"policy.floor", "0"}},
       "# mine\npolicy.floor = 0\npolicy.order = \"fair\"\n"},
      {"an empty file", "", {{"a.b", "1"}}, "[a]\nb = 1\n"},
  };
  for (const EditCase& each : cases) {
    const Result<std::string> after = WithValues(each.before, each.values);
    ASSERT_TRUE(after) << each.name;
    EXPECT_EQ(*after, each.after) << each.name;
  }
}

TEST(WithValues, RefusesToReplaceAValueOfSeveralLines) {
  const auto after = WithValues("[daemon]\nadmins = [\n  \"ann\",\n]\n", {{"daemon.admins", "[]"}});
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().message, "line 2: daemon.admins spans several lines; change it by hand");
  EXPECT_FALSE(WithValues("[daemon]\nadmins = [  # [a]\n]\n", {{"daemon.admins", "[]"}}));
}

}  // namespace
}  // namespace carma::cli
