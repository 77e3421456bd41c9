#include "cli/mcp/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace carma::cli {
namespace {

using base::Json;
using ::testing::ElementsAre;

class Mcp : public ::testing::Test {
 protected:
  Json Ask(const std::string& method, const Json& parameters = Json::object(),
           bool changes = false) {
    const McpServer server(
        [this](const std::vector<std::string>& words) {
          words_ = words;
          return ran_;
        },
        changes, "1.2");
    const Json message{{"jsonrpc", "2.0"}, {"id", 7}, {"method", method}, {"params", parameters}};
    return base::ParseJson(server.Answer(base::DumpJson(message)).value()).value();
  }
  Json Call(const std::string& tool, const Json& arguments, bool changes = false) {
    words_.clear();
    return Ask("tools/call", {{"name", tool}, {"arguments", arguments}}, changes).at("result");
  }

  std::vector<std::string> words_;
  McpRan ran_{0, "fine"};
};

TEST_F(Mcp, GreetsAndListsItsTools) {
  EXPECT_EQ(Ask("initialize").at("result").at("serverInfo").at("version"), "1.2");
  EXPECT_EQ(Ask("tools/list").at("result").at("tools").size(), 7U);
  EXPECT_EQ(Ask("tools/list", Json::object(), true).at("result").at("tools").size(), 9U);
  EXPECT_EQ(Ask("ping").at("id"), 7);
  EXPECT_EQ(Ask("resources/list").at("error").at("code"), -32601);
  const McpServer server({}, false, "");
  EXPECT_FALSE(server.Answer(R"({"jsonrpc":"2.0","method":"notifications/initialized"})"));
  EXPECT_THAT(*server.Answer("{"), ::testing::HasSubstr("-32700"));
}

TEST_F(Mcp, EachToolIsOneCallOfCarma) {
  EXPECT_EQ(Call("list", {{"state", "failed"}}).at("content")[0].at("text"), "fine");
  EXPECT_THAT(words_, ElementsAre("list", "--state=failed"));
  Call("logs", {{"task", "42"}, {"lines", 5}, {"stderr", true}});
  EXPECT_THAT(words_, ElementsAre("logs", "-n", "5", "--err", "42"));
  Call("preview", {{"command", {"python3", "t.py", "--lr", "1"}},
                   {"options", {{"gpus", 2}, {"gpu-mem", "12G"}, {"exclusive", true}}}});
  EXPECT_THAT(words_, ElementsAre("submit", "--check", "--exclusive", "--gpu-mem=12G", "--gpus=2",
                                  "python3", "t.py", "--lr", "1"));
  ran_ = {1, "carma: no such task"};
  EXPECT_EQ(Call("explain", {{"task", "7"}}).at("isError"), true);
}

TEST_F(Mcp, ChangesNothingUnlessAllowed) {
  EXPECT_EQ(Call("cancel", {{"task", "7"}}).at("isError"), true);
  EXPECT_TRUE(words_.empty());
  Call("cancel", {{"task", "7"}}, true);
  EXPECT_THAT(words_, ElementsAre("cancel", "7"));
  Call("submit", {{"command", {"true"}}}, true);
  EXPECT_THAT(words_, ElementsAre("submit", "true"));
}

TEST_F(Mcp, ArgumentsCannotBecomeOptions) {
  for (const auto& [tool, arguments] : std::vector<std::pair<std::string, Json>>{
           {"explain", {{"task", "--json"}}},
           {"explain", Json::object()},
           {"list", {{"user", "-x"}}},
           {"estimate", {{"words", {"--run", "sh", "x", "python3", "x.py"}}}},
           {"estimate", {{"words", Json::array({"--reset-calibration"})}}},
           {"submit", {{"command", {"--batch", "x"}}}},
           {"submit", {{"command", {"true"}}, {"options", {{"batch", "/etc/passwd"}}}}},
           {"submit", {{"command", {"true"}}, {"gpu-mem", "30G"}}},
           {"submit", {{"command", {"true"}}, {"options", {{"hold", "true"}}}}},
           {"logs", {{"task", "1"}, {"lines", "5"}}},
           {"preview", {{"command", "true"}}}}) {
    EXPECT_EQ(Call(tool, arguments, true).at("isError"), true) << tool;
    EXPECT_TRUE(words_.empty()) << tool;
  }
}

}  // namespace
}  // namespace carma::cli
