#include "lab/verbs/simulate/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::cli {
namespace {

using ::testing::HasSubstr;

SimPolicy Policy(const std::string& spec) {
  const auto words = SplitPolicy(spec, "--policy");
  EXPECT_TRUE(words) << words.error().message;
  auto policy = MakePolicy(config::Settings{}, *words);
  EXPECT_TRUE(policy) << policy.error().message;
  return *policy;
}

TEST(Experiment, MakesPoliciesOfRunsCommonWordsAndTheMatrix) {
  Experiment experiment;
  const auto read = ReadExperiment("e.toml", R"(
trace = "demo60"
runs = 5
noise = 0.03

[common]
estimator = "none"

[model]
memory_first = 0.6

[run."MAGM 80 %, no.dots"]
mapper = "magm"
sm_cap = 0.8

[run.plain]

[matrix]
mapper = ["magm", "lug"]
sm_cap = [0.75, 0.8, false]
)",
                                   experiment);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(experiment.load.runs, 5);
  EXPECT_EQ(experiment.load.noise, 0.03);
  ASSERT_EQ(experiment.common.size(), 1u);
  ASSERT_EQ(experiment.load.model.size(), 1u);
  EXPECT_EQ(experiment.load.model[0].key, "memory_first");
  ASSERT_EQ(experiment.policies.size(), 2u + 6u);
  EXPECT_EQ(experiment.policies[0][0].value, "MAGM 80 %, no.dots");
  EXPECT_EQ(experiment.policies[1][0].value, "plain");
  const auto last = MakePolicy(config::Settings{}, experiment.policies.back());
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_EQ(last->spec, "lug,sm_cap=false");
}

TEST(Experiment, ReportsMistakesByLine) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"runs = 0\n", "e.toml:1: runs: expected a number from 1"},
      {"\nbogus = 1\n", "e.toml:2: unknown key 'bogus'; expected trace"},
      {"trace = 3\n", "e.toml:1: trace: expected text in quotes"},
      {"[matrix]\nmapper = \"magm\"\n", "e.toml:2: matrix.mapper: expected a list"},
      {"[run]\nmapper = \"magm\"\n",
       "e.toml:2: run.mapper: expected a section such as [run.magm], not 'magm'"},
      {"seed = -1\n", "e.toml:1: seed: expected a whole number"},
      {"run = [\n", "e.toml:"},
  };
  for (const auto& each : cases) {
    Experiment experiment;
    const auto read = ReadExperiment("e.toml", each.text, experiment);
    ASSERT_FALSE(read) << each.text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(read.error().message, HasSubstr(each.message));
  }
}

TEST(Experiment, RefusesATooLargeMatrix) {
  std::string text = "[matrix]\n";
  for (const char* key : {"sm_cap", "margin", "floor", "max_tasks_per_gpu"})
    text += std::string(key) + " = [1,2,3,4,5,6,7,8,9]\n";
  Experiment experiment;
  const auto read = ReadExperiment("e.toml", text, experiment);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("more than 1000 policies"));
}

TEST(Model, WordsApplyToEveryPolicyAndAreReproduced) {
  SimLoad load;
  load.model = {{"memory_first", "0.5", "e.toml:3"},
                {"checkpoint", "30m", "e.toml:4"},
                {"memory_first", "0.6", "--model"}};
  SimPolicy policy = Policy("magm");
  ASSERT_TRUE(ApplyModel(load.model, policy));
  EXPECT_EQ(policy.options.memory.first_share, 0.6);
  EXPECT_THAT(ReproductionLine(load, {&policy, 1}),
              HasSubstr("--model memory_first=0.6,checkpoint=30m --policy magm"));
  load.model.push_back({"memory_first", "2", "e.toml:9"});
  const auto wrong = ApplyModel(load.model, policy);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "e.toml:9: memory_first: expected share from 0 to 1, not '2'");
}

TEST(OneRunLine, IncludesEarlierRunsIfHistoryIsCarriedOver) {
  SimLoad load;
  load.seed = 5;
  EXPECT_THAT(OneRunLine(load, Policy("magm"), 7), HasSubstr("--runs 1 --noise 0 --seed 7"));
  EXPECT_THAT(OneRunLine(load, Policy("magm,history=runs"), 7),
              HasSubstr("--runs 3 --noise 0 --seed 5"));
}

TEST(ReproductionLine, KeepsEveryLabelThatAWordCanHold) {
  for (const char* label : {"MAGM 80 %", "MAGM, 80 %", "cap=0.8", "a=1, b=2", "(streams)",
                            "CARMA (mps), new", "a, b)"}) {
    SimPolicy policy = Policy("magm,sm_cap=0.8");
    policy.label = label;
    const std::string line = ReproductionLine(SimLoad{}, {&policy, 1});
    const std::size_t from = line.find("--policy ") + 9;
    std::string words = line.substr(from, line.find(" --runs") - from);
    std::erase(words, '\'');
    const SimPolicy again = Policy(words);
    EXPECT_EQ(again.spec, policy.spec) << line;
    // "a, b)" cannot be written, because the closing parenthesis would end a list.
    EXPECT_EQ(again.label, label == std::string("a, b)") ? policy.spec : label) << line;
  }
}

TEST(ReproductionLine, IsQuotedForAShell) {
  SimLoad load;
  load.trace = "my trace.csv";
  load.runs = 3;
  SimPolicy policy;
  policy.spec = "magm,sm_cap=0.8";
  EXPECT_EQ(ReproductionLine(load, {&policy, 1}),
            "carma simulate --trace 'my trace.csv' --server dgx-station-a100 "
            "--policy magm,sm_cap=0.8 --runs 3 --noise 0 --seed 1");
}

}  // namespace
}  // namespace carma::cli
