#include "cli/simulate/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/progress_line.h"

namespace carma::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(Change, IsTakenRunByRunSoThatCommonNoiseCancels) {
  const double before[] = {100, 200, 300};
  const double after[] = {90, 180, 270};
  const Change change = ChangeOf(after, before);
  EXPECT_NEAR(change.relative.mean, -0.1, 1e-12);
  EXPECT_NEAR(change.relative.sd, 0, 1e-12);
  EXPECT_FALSE(change.within_noise);
}

TEST(Change, LessThanTwiceItsStandardErrorIsNoise) {
  const double before[] = {100, 100, 100};
  const double around[] = {90, 111, 98};
  EXPECT_TRUE(ChangeOf(around, before).within_noise);
  const double less[] = {90, 91, 89};
  EXPECT_FALSE(ChangeOf(less, before).within_noise);
  EXPECT_FALSE(ChangeOf(std::span(around).first(1), std::span(before).first(1)).within_noise)
      << "the noise of a single run is not known";
}

TEST(SimTable, ComparesWithTheFirstAndWithWhatNoPolicyBeats) {
  const SimOutcome outcomes[] = {Outcome("exclusive", {6000, 6000}),
                                 Outcome("CARMA", {4500, 4500})};
  const std::string table = SimTable(outcomes, Screen{});
  EXPECT_THAT(table, HasSubstr("-25.0 ±0.0"));
  EXPECT_THAT(table, HasSubstr("+50.0"));
  EXPECT_THAT(table, Not(HasSubstr("~")));
}

TEST(SimTable, ALoadThatWasNotDoneHasNoDistanceToItsBounds) {
  SimOutcome outcomes[] = {Outcome("exclusive", {4500}), Outcome("CARMA", {4499.9})};
  EXPECT_THAT(SimTable(outcomes, Screen{}), AllOf(HasSubstr(" +50.0"), HasSubstr(" +0.0")));
  for (SimOutcome& outcome : outcomes) {
    outcome.runs.front().tasks_by_state = {{core::TaskState::kSucceeded, 56},
                                           {core::TaskState::kOutOfMemory, 4}};
  }
  EXPECT_THAT(SimTable(outcomes, Screen{}), AllOf(Not(HasSubstr("+50.0")), HasSubstr(" 4 ")));
}

TEST(ProgressBar, TellsShareAndTimeLeft) {
  EXPECT_EQ(ProgressBar(0.5, std::chrono::seconds(60)),
            "[###############...............]  50 %, 1:00 to go");
  EXPECT_EQ(ProgressBar(1, std::chrono::seconds(60)), "[##############################] 100 %");
}

}  // namespace
}  // namespace carma::cli
