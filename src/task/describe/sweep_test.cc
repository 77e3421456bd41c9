#include "task/describe/sweep.h"

#include <gtest/gtest.h>

namespace carma::task {
namespace {

TEST(Sweep, MakesEveryCombination) {
  const auto lr = ParseParameter("lr=0.1,0.01"), seed = ParseParameter("seed=1,2");
  ASSERT_TRUE(lr && seed);
  const auto all = Combinations({*lr, *seed}, {});
  ASSERT_TRUE(all);
  EXPECT_EQ(*all, (std::vector<Parameters>{{{"lr", "0.1"}, {"seed", "1"}},
                                           {{"lr", "0.1"}, {"seed", "2"}},
                                           {{"lr", "0.01"}, {"seed", "1"}},
                                           {{"lr", "0.01"}, {"seed", "2"}}}));
}

TEST(Sweep, ReadsATable) {
  const auto table = ParseSweepTable("# mine\nmodel,depth\nresnet,\"1,8\"\nvgg,16\n", "s.csv");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ((*table)[0], (Parameters{{"model", "resnet"}, {"depth", "1,8"}}));
  EXPECT_EQ(Combinations({*ParseParameter("lr=1,2")}, *table)->size(), 4U);
  EXPECT_EQ(ParseSweepTable("a b,c\n1,2\n", "s.csv").error().message,
            "s.csv: 'a b': expected a name of letters, digits and _");
  EXPECT_EQ(ParseSweepTable("a,b,a\n1,2,3\n", "s.csv").error().message,
            "s.csv:1: two columns are named 'a'; rename or remove one");
  EXPECT_FALSE(ParseSweepTable("a,b\n1\n", "s.csv"));
  const auto marked = ParseSweepTable("\xEF\xBB\xBFmodel,depth\nvgg,16\n", "s.csv");
  ASSERT_TRUE(marked) << marked.error().message;
  EXPECT_EQ(marked->at(0).at("model"), "vgg");
  EXPECT_FALSE(ParseSweepTable("a,b\n", "s.csv"));
}

TEST(Sweep, RefusesMeaninglessSweeps) {
  EXPECT_FALSE(ParseParameter("lr"));
  EXPECT_FALSE(ParseParameter("lr="));
  EXPECT_FALSE(ParseParameter("1r=1"));
  EXPECT_FALSE(Combinations({*ParseParameter("a=1"), *ParseParameter("a=2")}, {}));
  std::string many = "n=0";
  for (int i = 1; i < 101; ++i) many += "," + std::to_string(i);
  auto other = *ParseParameter(many);
  other.first = "m";
  EXPECT_FALSE(Combinations({*ParseParameter(many), other}, {}));
}

TEST(Sweep, ReplacesNamesInBracesByValues) {
  TaskSpec spec;
  spec.name = "train {lr}";
  spec.stdout_path = "/o/{lr}/{seed}.out";
  spec.stderr_path = "/o/{lr}.err";
  spec.command = {"python", "t.py", "--lr={lr}", "{seed}", "{other}", "{lr", "{{lr}}"};
  ApplyParameters({{"lr", "0.1"}, {"seed", "{lr}"}}, spec);
  EXPECT_EQ(spec.command, (std::vector<std::string>{"python", "t.py", "--lr=0.1", "{lr}", "{other}",
                                                    "{lr", "{0.1}"}));
  EXPECT_EQ(spec.parameters.at("lr"), "0.1");
  EXPECT_EQ(spec.name, "train 0.1");
  EXPECT_EQ(spec.stdout_path, "/o/0.1/{lr}.out");
  EXPECT_EQ(spec.stderr_path, "/o/0.1.err");
}

}  // namespace
}  // namespace carma::task
