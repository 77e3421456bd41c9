// Plays every scenario file through the simulator's shell.
#include "tests/scenario/sim_shell.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/scenario/scenario_files.h"

namespace carma::sim {
namespace {

class SimScenario : public ::testing::TestWithParam<std::string> {};

TEST_P(SimScenario, GivesTheExpectedActions) {
  SimShell shell;
  const base::Result<base::Unit> played = RunScenarioFile(GetParam(), shell);
  EXPECT_TRUE(played) << played.error().message;
}

class RecordingShell : public SimShell {
 public:
  std::vector<TimedAction> TakeActions() override {
    std::vector<TimedAction> actions = SimShell::TakeActions();
    all.insert(all.end(), actions.begin(), actions.end());
    return actions;
  }
  std::vector<TimedAction> all;
};

TEST_P(SimScenario, GivesEqualActionsForEqualHistories) {
  RecordingShell first;
  RecordingShell second;
  ASSERT_TRUE(RunScenarioFile(GetParam(), first));
  ASSERT_TRUE(RunScenarioFile(GetParam(), second));
  ASSERT_EQ(first.all.size(), second.all.size());
  for (std::size_t i = 0; i < first.all.size(); ++i) {
    EXPECT_EQ(first.all[i].when, second.all[i].when);
    EXPECT_TRUE(first.all[i].action == second.all[i].action) << "action " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, SimScenario, ::testing::ValuesIn(ScenarioFiles()), ScenarioName);

}  // namespace
}  // namespace carma::sim
