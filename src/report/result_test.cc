#include "report/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace carma::report {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

Metrics EndedRun(const std::string& label, double total_s, double jct_s = 1000, double slowdown = 1,
                 std::int64_t failed = 0) {
  Metrics run;
  run.label = label;
  run.tasks = run.executed = 60;
  run.trace_total_s = total_s;
  run.jct.mean = jct_s;
  run.waiting.mean = 60;
  run.execution.mean = jct_s - 60;
  run.slowdown = Spread{.mean = slowdown};
  run.tasks_by_state = {{core::TaskState::kSucceeded, 60 - failed},
                        {core::TaskState::kFailed, failed}};
  return run;
}

TEST(Change, ComparesPairedRunsSoThatCommonNoiseCancels) {
  const double before[] = {100, 200, 300};
  const double after[] = {90, 180, 270};
  const Change change = ChangeOf(after, before);
  EXPECT_NEAR(change.relative.mean, -0.1, 1e-12);
  EXPECT_NEAR(change.relative.sd, 0, 1e-12);
  EXPECT_FALSE(change.within_noise);
}

TEST(Change, WithinItsConfidenceIntervalIsNoise) {
  const double before[] = {100, 100, 100};
  const double around[] = {90, 111, 98};
  EXPECT_TRUE(ChangeOf(around, before).within_noise);
  const double less[] = {90, 91, 89};
  EXPECT_FALSE(ChangeOf(less, before).within_noise);
  EXPECT_FALSE(ChangeOf(std::span(around).first(1), std::span(before).first(1)).within_noise)
      << "the noise of a single run is unknown";
}

TEST(Change, FewRunsNeedAClearerDifference) {
  const struct {
    std::size_t runs;
    double errors;  // needed difference in standard errors (Student's t for 95 %)
  } cases[] = {{2, 12.706}, {4, 3.182}, {6, 2.571}, {10, 2.262}, {30, 2.045}, {1000, 1.962}};
  for (const auto& each : cases) {
    const std::vector<double> before(each.runs, 100);
    const auto less_by = [&](double errors) {
      std::vector<double> after;  // its standard error is 1 / sqrt(runs - 1)
      for (std::size_t i = 0; i < each.runs; ++i) {
        after.push_back(100 - errors / std::sqrt(static_cast<double>(each.runs - 1)) +
                        (i % 2 == 0 ? 1 : -1));
      }
      return ChangeOf(after, before);
    };
    EXPECT_TRUE(less_by(each.errors * 0.99).within_noise) << each.runs;
    EXPECT_FALSE(less_by(each.errors * 1.01).within_noise) << each.runs;
  }
}

TEST(Change, UsesWelchForDifferentNumbersOfRuns) {
  const auto of = [](double mean, std::size_t runs) {
    return Estimated{.mean = mean, .sd = 1, .runs = runs};
  };
  // With a standard error of 1, two runs each and 2 degrees of freedom, a difference is significant
  // only above the limit of 4.30.
  EXPECT_TRUE(WithinNoise(of(100, 2), of(104.2, 2)));
  EXPECT_FALSE(WithinNoise(of(100, 2), of(104.4, 2)));
  // With a standard error of 0.2, 50 runs each and 98 degrees of freedom, the limit is 0.397.
  EXPECT_TRUE(WithinNoise(of(100, 50), of(100.39, 50)));
  EXPECT_FALSE(WithinNoise(of(100, 50), of(100.40, 50)));
  EXPECT_FALSE(WithinNoise({.mean = 1, .runs = 2}, {.mean = 2, .runs = 2})) << "no noise at all";
}

TEST(Change, IsTheSameInTheHeadlineAndInTheTable) {
  std::vector<Metrics> runs{EndedRun("a", 1000), EndedRun("a", 1000), EndedRun("b", 900),
                            EndedRun("b", 910)};
  const std::int64_t crashes[] = {4, 8, 9, 17};
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].oom_crashes = crashes[i];
  const std::vector<Case> cases = CasesOf(runs);
  const Headline crashed = Headlines(runs).back();
  EXPECT_EQ(crashed.name, "OOM crashes");
  EXPECT_EQ(Difference(LineOf("oom_crashes"), cases[0], cases[1]), "+116.7 %");
  EXPECT_EQ(crashed.change, "+117 % ± 8") << "not the mean of +125 % and +112.5 %";
}

TEST(ResultSentence, StatesHowMuchEarlierTheBestEndsAndAtWhatCost) {
  Metrics cancelled = EndedRun("", 6000, 1000, 1, 3);
  cancelled.tasks = 70;
  const struct {
    const char* name;
    std::vector<Metrics> runs;
    std::string sentence;
  } cases[] = {
      {"single runs",
       {EndedRun("exclusive", 6000, 1000), EndedRun("CARMA", 4500, 730, 1.5)},
       "CARMA finishes 25 % earlier than exclusive; a task completes 27 % sooner after submission "
       "and takes 1.50 times as long as when running alone."},
      {"replays are shown with their standard deviation",
       {EndedRun("exclusive", 1000), EndedRun("exclusive", 1000), EndedRun("CARMA", 700),
        EndedRun("CARMA", 720)},
       "CARMA finishes 29 % ± 1 earlier than exclusive; a task takes 1.00 times as long as when "
       "running alone."},
      {"the best of several",
       {EndedRun("exclusive", 6000), EndedRun("streams", 5900), EndedRun("mps", 4500, 1000, 2)},
       "mps, best of these, finishes 25 % earlier than exclusive; a task takes 2.00 times as long "
       "as when running alone."},
      {"a small difference is shown with one decimal",
       {EndedRun("exclusive", 6000), EndedRun("later", 6150)},
       "later finishes 2.5 % later than exclusive; a task takes 1.00 times as long as when running "
       "alone."},
      {"a difference within the noise is not reported",
       {EndedRun("a", 1000), EndedRun("a", 1000), EndedRun("b", 900), EndedRun("b", 1110)},
       "b finishes as early as a; a task takes 1.00 times as long as when running alone."},
      {"a run with less work is not better",
       {EndedRun("exclusive", 6000), EndedRun("loses", 3000, 1000, 1, 4), EndedRun("CARMA", 4500)},
       "CARMA, best of these, finishes 25 % earlier than exclusive; a task takes 1.00 times as "
       "long as when running alone."},
      {"tasks that did not succeed are reported",
       {EndedRun("exclusive", 6000), EndedRun("loses", 3000, 1000, 1, 4)},
       "loses finishes 50 % earlier than exclusive; a task takes 1.00 times as long as when "
       "running alone; 4 of its 60 tasks did not succeed."},
      {"one run",
       {EndedRun("", 6000, 1000)},
       "60 tasks in 1:40:00, with a wait of 1:00 and a run time of 15:40 per task on average; all "
       "succeeded."},
      {"several runs of one policy are averaged",
       {EndedRun("magm", 6000, 1000), EndedRun("magm", 6600, 1060, 1, 1)},
       "60 tasks in 1:45:00 (mean of 2 runs), with a wait of 1:00 and a run time of 16:10 per task "
       "on average; 0.5 did not succeed."},
      {"one run with failures",
       {EndedRun("", 6000, 1000, 1, 3)},
       "60 tasks in 1:40:00, with a wait of 1:00 and a run time of 15:40 per task on average; 3 "
       "did not succeed."},
      {"one run with tasks that never ran",
       {cancelled},
       "60 tasks in 1:40:00, with a wait of 1:00 and a run time of 15:40 per task on average; 3 of "
       "all 70 did not succeed."},
      {"the best is worse than the first",
       {EndedRun("exclusive", 6000), EndedRun("a", 6150), EndedRun("b", 6300)},
       "a, best of the others, finishes 2.5 % later than exclusive; a task takes 1.00 times as "
       "long as when running alone."},
      {"a run without tasks is not faster",
       {EndedRun("exclusive", 6000), Metrics{.label = "magm", .trace_total_s = 5}},
       "The runs cannot be compared, because no task ran in magm."},
      {"no tasks were run", {Metrics{}}, "No tasks have ended."},
      {"no task could run",
       {Metrics{.tasks_by_state = {{core::TaskState::kFailed, 2}}, .tasks = 2}},
       "No task was run; 2 did not succeed."},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.name);
    EXPECT_EQ(ResultSentence(each.runs), each.sentence);
  }
  EXPECT_EQ(ResultSentence({}), "");
}

TEST(Headlines, AreForTheRunOfTheSentence) {
  const std::vector<Metrics> runs{EndedRun("exclusive", 6000), EndedRun("CARMA", 4500)};
  const std::vector<Headline> headlines = Headlines(runs);
  ASSERT_EQ(headlines.size(), 4u) << "no energy was reported";
  EXPECT_THAT(headlines.front(), Field(&Headline::value, "1:15:00"));
  EXPECT_EQ(headlines.front().change, "-25 %");
  EXPECT_EQ(headlines[1].change, "no difference");
  EXPECT_EQ(headlines.back().name, "OOM crashes");
}

}  // namespace
}  // namespace carma::report
