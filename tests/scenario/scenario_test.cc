#include "tests/scenario/scenario.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/scenario/sim_shell.h"

namespace carma::sim {
namespace {

TEST(ParseScenario, ReadsGpusPolicyAndLines) {
  const auto scenario = ParseScenario(
      "# a comment\n"
      "gpus 2 x 40960 mib reserved 424 type A100\n"
      "policy lug sm_cap=none margin_mib=7 stale_after=2s settle=no\n"
      "samples every=500ms window=30s\n"
      "at 1.5s submit t1 need_mib=5; submit t2 exclusive expect start t1 gpu=0 expect start t2\n"
      "  expect nothing  # really\n",
      "a.scenario");
  ASSERT_TRUE(scenario) << scenario.error().message;
  ASSERT_EQ(scenario->gpus.size(), 2U);
  EXPECT_EQ(scenario->gpus[1].UsableMib(), 40536);
  EXPECT_EQ(scenario->gpus[1].uuid, "GPU-1");
  EXPECT_EQ(scenario->policy.mapper, "lug");
  EXPECT_EQ(scenario->policy.sm_cap, std::nullopt);
  EXPECT_EQ(scenario->policy.margin_mib, 7);
  EXPECT_EQ(scenario->sample_period, base::Duration{500});
  ASSERT_EQ(scenario->lines.size(), 2U);
  EXPECT_EQ(scenario->lines[0].at, base::FromMs(1'500));
  EXPECT_EQ(scenario->lines[0].happens.size(), 2U);
  EXPECT_EQ(scenario->lines[0].expects.size(), 2U);
  EXPECT_TRUE(scenario->lines[1].continues);
}

TEST(ParseScenario, NamesTheWrongLine) {
  struct Case {
    std::string name;
    std::string text;
    std::string message;
  };
  const std::string head = "gpus 1 x 40000 mib\n";
  const Case cases[] = {
      {"nothing", "", "x:1: expected a line 'gpus"},
      {"an unknown kind of line", head + "go\n", "x:2: 'go'"},
      {"no number of GPUs", "gpus many x 1 mib\n", "x:1: expected 'gpus"},
      {"too many GPUs", "gpus 65 x 1000 mib\n", "x:1: more than 64"},
      {"all memory reserved", "gpus 1 x 10 mib reserved 10\n", "x:1: expected 'gpus"},
      {"no such mapper", head + "policy magic\n", "x:2: expected 'policy"},
      {"no such option", head + "policy magm luck=1\n", "x:2: 'luck'"},
      {"a bad value", head + "policy magm margin_mib=much\n", "margin_mib=much"},
      {"no such option of new rules", head + "at 1s policy magm luck=1\n", "no option 'luck'"},
      {"a cap out of range", head + "policy magm sm_cap=80\n", "sm_cap"},
      {"no such era", head + "policy magm published=v9\n", "x:2: published"},
      {"no time", head + "at noon submit t1\n", "x:2: expected 'at TIME'"},
      {"time goes back", head + "at 2s restart\nat 1s restart\n", "x:3: lines must be"},
      {"no such verb", head + "at 1s dance t1\n", "x:2: 'dance'"},
      {"no such expectation", head + "at 1s restart expect joy\n", "x:2: 'joy'"},
      {"a word too many", head + "at 1s cancel t1 t2\n", "x:2: 'cancel' takes 1"},
      {"another verb's option", head + "at 1s cancel t1 gpu=0\n", "no option 'gpu'"},
      {"expect without a moment", head + "expect nothing\n", "before the first"},
  };
  for (const Case& c : cases) {
    const auto scenario = ParseScenario(c.text, "x");
    ASSERT_FALSE(scenario) << c.name;
    EXPECT_EQ(scenario.error().code, base::ErrorCode::kInvalid) << c.name;
    EXPECT_NE(scenario.error().message.find(c.message), std::string::npos)
        << c.name << ": " << scenario.error().message;
  }
}

TEST(RunScenario, ReportsExpectedAndActualNews) {
  struct Case {
    std::string name;
    std::string lines;
    std::string message;
  };
  const Case cases[] = {
      {"a start that nobody expects", "at 1s submit t1 need_mib=5\n", "x:2: unexpected start t1"},
      {"a start that never comes", "at 1s submit t1 held expect start t1\n", "expected start t1"},
      {"another GPU", "at 1s submit t1 need_mib=5 expect start t1 gpu=1\n", "gpu: expected"},
      {"another claim", "at 1s submit t1 need_mib=5 expect start t1 claim_mib=6\n",
       "claim_mib: expected 6, got 5"},
      {"another time", "at 1s submit t1 need_mib=5 expect start t1 at=2s\n", "at: expected 2s"},
      {"another reason", "at 1s submit t1 held expect reason t1 GpuMemory\n", "got Held"},
      {"another state", "at 1s submit t1 held expect state t1 running\n", "got queued"},
      {"something for nothing", "at 1s submit t1 need_mib=5 expect nothing\n", "expected nothing"},
      {"no such GPU", "at 1s drain gpu=2\n", "x:2: 'drain': gpu=2: no such GPU"},
      {"no such task", "at 1s cancel one\n", "expected a task like t1"},
      {"no such end", "at 1s exit t1 badly\n", "expected ok, fail"},
  };
  for (const Case& c : cases) {
    const auto scenario = ParseScenario("gpus 2 x 40000 mib\n" + c.lines, "x");
    ASSERT_TRUE(scenario) << c.name << ": " << scenario.error().message;
    SimShell shell;
    const auto played = RunScenario(*scenario, shell);
    ASSERT_FALSE(played) << c.name;
    EXPECT_NE(played.error().message.find(c.message), std::string::npos)
        << c.name << ": " << played.error().message;
  }
}

}  // namespace
}  // namespace carma::sim
