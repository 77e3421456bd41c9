#include "core/policy/gpu_rule.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "core/policy/policy.h"

namespace carma::core {
namespace {

double ValueOf(const std::string& text, const Need& need = {}, const GpuView& gpu = {}) {
  const Result<GpuRule> rule = GpuRule::Parse(text);
  if (!rule) ADD_FAILURE() << text << ": " << rule.error().message;
  return rule ? rule->Value({}, need, gpu) : 0;
}

TEST(GpuRule, Calculates) {
  const std::pair<const char*, double> cases[] = {
      {"1", 1},
      {" 2 + 3 * 4 ", 14},
      {"(2 + 3) * 4", 20},
      {"10 - 4 - 3", 3},
      {"12 / 3 / 2", 2},
      {"-2 * -3", 6},
      {"--2", 2},
      {"1 < 2", 1},
      {"2 <= 1", 0},
      {"2 >= 2 and 1 != 1", 0},
      {"1 == 2 or 3 > 2", 1},
      {"not 1 > 2", 1},
      {"not not 5", 1},
      {"1 or 0 and 0", 1},
      {"min(3, 2) + max(1, 4)", 6},
      {"if(1 < 2, 7, 8)", 7},
      {"if(0, 7, if(0, 8, 9))", 9},
      {"1 / 0", 0},
      {"0 / 0 + 3", 3},
      {"0.5 * 4", 2},
  };
  for (const auto& [text, value] : cases) EXPECT_DOUBLE_EQ(ValueOf(text), value) << text;
}

TEST(GpuRule, ReadsTheTaskAndTheGpu) {
  const std::uint32_t users[] = {7, 8, 7};
  const GpuView gpu{.index = GpuIndex{3},
                    .total_mib = 40'000,
                    .free_mib = 12'000,
                    .sm_active = 0.4,
                    .users = users,
                    .tasks = 3};
  Need need{.memory_mib = 5'000, .gpus = 2, .waited = Duration{90'000}, .uid = 7};
  EXPECT_DOUBLE_EQ(ValueOf("free_mib - 2000 * tasks - 5000 * activity", need, gpu), 4'000);
  EXPECT_DOUBLE_EQ(ValueOf("own_tasks < 2", need, gpu), 0);
  EXPECT_DOUBLE_EQ(ValueOf("memory_mib / total_mib", need, gpu), 0.125);
  EXPECT_DOUBLE_EQ(ValueOf("gpu + waited_s + gpus", need, gpu), 95);
  need.uid = 8;
  EXPECT_DOUBLE_EQ(ValueOf("own_tasks < 2", need, gpu), 1);
}

TEST(GpuRule, ReportsThePositionOfAMistake) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "at character 1: expected a number, a name or '(', not the end of the expression"},
      {"free_mib -",
       "at character 11: expected a number, a name or '(', not the end of the expression"},
      {"fre_mib * 2",
       "at character 1: expected a quantity listed in docs/server/policies.md, not 'fre_mib * "
       "2'"},
      {"2 * (tasks + 1", "at character 15: expected ')', not the end of the expression"},
      {"min(1)", "at character 6: expected ',', not ')'"},
      {"1 2", "at character 3: expected an operator or the end of the expression, not '2'"},
      {"1..2", "at character 1: expected a number, not '1..2'"},
      {"tasks = 1", "at character 7: expected an operator or the end of the expression, not '= 1'"},
      {std::string(401, '1'), "longer than 400 bytes"},
      {std::string(60, '(') + "1", "at character 33: expected fewer parentheses"},
  };
  for (const auto& [text, error] : cases) {
    const Result<GpuRule> rule = GpuRule::Parse(text);
    ASSERT_FALSE(rule) << text;
    EXPECT_TRUE(rule.error().message.starts_with(error)) << rule.error().message;
  }
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += "1+(";
  EXPECT_FALSE(GpuRule::Parse(deep + "1" + std::string(40, ')')));
}

TEST(GpuRule, RulesAreEqualIfTheirTextsAre) {
  EXPECT_EQ(*GpuRule::Parse("tasks < 2"), *GpuRule::Parse("tasks < 2"));
  EXPECT_FALSE(*GpuRule::Parse("tasks < 2") == *GpuRule::Parse("tasks < 3"));
  EXPECT_EQ(GpuRule::Parse("tasks < 2")->text(), "tasks < 2");
}

}  // namespace
}  // namespace carma::core
