#include "lab/verbs/simulate/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/progress_line.h"

namespace carma::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

SimOutcome Outcome(const std::string& label, const std::vector<double>& makespans) {
  SimOutcome outcome;
  outcome.policy.label = label;
  for (const double makespan : makespans) {
    report::Metrics run;
    run.trace_total_s = makespan;
    run.energy_mj = makespan / 100;
    run.bounds = {{"longest task", 1000}, {"exclusive area", 5000}, {"memory area", 3000}};
    outcome.runs.push_back(run);
  }
  return outcome;
}

TEST(SimTable, ComparesWithTheFirstPolicyAndTheBounds) {
  const SimOutcome outcomes[] = {Outcome("exclusive", {6000, 6000}),
                                 Outcome("CARMA", {4500, 4500})};
  const std::string table = SimTable(outcomes, Screen{});
  EXPECT_THAT(table, HasSubstr("-25.0 ±0.0"));
  EXPECT_THAT(table, HasSubstr("+50.0"));
  EXPECT_THAT(table, Not(HasSubstr("~")));
}

TEST(SimTable, SplitsIntoTwoTablesOnANarrowScreen) {
  const SimOutcome outcomes[] = {Outcome("exclusive", {6000, 6000}),
                                 Outcome("CARMA (streams), a long name", {4500, 4500})};
  std::size_t widest = 0, tables = 0;
  const std::string text = SimTable(outcomes, Screen{.width = 80});
  for (const std::string_view line : base::Split(text, '\n')) {
    widest = std::max(widest, ShownWidth(line));
    tables += line.starts_with("POLICY");
  }
  EXPECT_LE(widest, 80u) << text;
  EXPECT_EQ(tables, 2u) << text;
}

TEST(SimTable, ReplacesLabelsThatDoNotFitByLetters) {
  const std::string label = "magm,sm_cap=0.8,estimator=gpumemnet,collocation=mps";
  const SimOutcome outcomes[] = {Outcome("exclusive", {6000}), Outcome(label, {4500})};
  const std::string text = SimTable(outcomes, Screen{.width = 80});
  EXPECT_THAT(text, StartsWith("A  exclusive\nB  " + label + "\n\nPOLICY "));
  EXPECT_THAT(text, AllOf(HasSubstr("\nA  "), HasSubstr("\nB  "), Not(HasSubstr("…"))));
  EXPECT_THAT(SimTable(outcomes, Screen{}), HasSubstr("\n" + label + " ")) << "nothing is cut";
}

TEST(SimTable, ShowsNoDistanceToBoundsIfTasksFailed) {
  SimOutcome outcomes[] = {Outcome("exclusive", {4500}), Outcome("CARMA", {4499.9})};
  EXPECT_THAT(SimTable(outcomes, Screen{}), AllOf(HasSubstr(" +50.0"), HasSubstr(" +0.0")));
  for (SimOutcome& outcome : outcomes) {
    outcome.runs.front().tasks_by_state = {{core::TaskState::kSucceeded, 56},
                                           {core::TaskState::kOutOfMemory, 4}};
  }
  EXPECT_THAT(SimTable(outcomes, Screen{}), AllOf(Not(HasSubstr("+50.0")), HasSubstr(" 4 ")));
}

TEST(SimTable, ARunWithoutASuccessfulTaskHasNoSlowdown) {
  SimOutcome outcome = Outcome("magm", {4500, 4500});
  EXPECT_THAT(SimTable({&outcome, 1}, Screen{}), Not(HasSubstr("1.00")));
  outcome.runs.back().slowdown = report::Spread{.mean = 3};
  EXPECT_THAT(SimTable({&outcome, 1}, Screen{}),
              AllOf(HasSubstr("3.00"), Not(HasSubstr("2.00")), Not(HasSubstr("1.00"))));
}

TEST(ProgressBar, ShowsShareAndTimeLeft) {
  EXPECT_EQ(ProgressBar(0.5, std::chrono::seconds(60)),
            "[###############...............]  50 %, 1:00 to go");
  EXPECT_EQ(ProgressBar(1, std::chrono::seconds(60)), "[##############################] 100 %");
}

}  // namespace
}  // namespace carma::cli
