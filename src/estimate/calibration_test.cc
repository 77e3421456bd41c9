#include "estimate/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "estimate/history.h"
#include "estimate/loaded_code.h"

namespace carma::estimate {
namespace {

using ::testing::HasSubstr;

// The built-in constants for networks with and without convolutions when all kernels are loaded at
// startup.
constexpr std::int64_t kShippedContext = 1712;
constexpr std::int64_t kPlainContext = 1455;

// A task on a site whose constant is context_mib; its model needs rest_mib on top of that.
task::Observation Taught(int number, std::int64_t rest_mib, std::int64_t context_mib,
                         const std::string& type = "A100", double error = 1) {
  task::Observation run;
  run.signature = std::to_string(number);
  run.gpu_type = type;
  run.formula = task::FormulaSplit{kShippedContext, rest_mib};
  run.measured_mib = static_cast<std::int64_t>(static_cast<double>(context_mib) +
                                               static_cast<double>(rest_mib) * error);
  return run;
}

std::vector<task::Observation> Many(int count, const std::string& type = "A100") {
  std::vector<task::Observation> runs;
  for (int i = 0; i < count; ++i) runs.push_back(Taught(i, 200 + 40 * (i % 10), 600, type));
  return runs;
}

TEST(Calibration, LearnsTheConstantFromFiveTasks) {
  EXPECT_EQ(Calibrate(Many(4), "A100").ContextMib(kShippedContext), kShippedContext);
  const Site site = Calibrate(Many(5), "A100");
  EXPECT_NEAR(site.ContextMib(kShippedContext), 600, 30) << "within the formula's own error";
  EXPECT_NEAR(Calibrate(Many(100), "A100").ContextMib(kShippedContext), 600, 10);
  EXPECT_LT(site.ContextMib(kPlainContext), site.ContextMib(kShippedContext));
  EXPECT_THAT(site.reason, HasSubstr("learned from 5 small models"));
  EXPECT_EQ(site.tasks, 5U);
  EXPECT_EQ(site.Remark(), "");
}

// Half of the tasks have convolutions. All tasks loaded their kernels at first use, but only half
// of them reported this.
TEST(Calibration, TasksShowHowKernelsAreLoaded) {
  const double plain = ShippedMib({Loading::kLazy, Libraries::kPlain});
  const double cudnn = ShippedMib({Loading::kLazy, Libraries::kConvolutions});
  std::vector<task::Observation> runs;
  for (int i = 0; i < 6; ++i) {
    const bool convolves = i % 2 == 0;
    task::Observation run = Taught(i, 500, static_cast<std::int64_t>(convolves ? cudnn : plain));
    run.formula->context_mib = static_cast<std::int64_t>(
        ShippedMib({i < 3 ? Loading::kEager : Loading::kLazy,
                    convolves ? Libraries::kConvolutions : Libraries::kPlain}));
    runs.push_back(run);
  }
  const Site site = Calibrate(runs, "A100");
  EXPECT_NEAR(site.ContextMib(kPlainContext), plain, 45);
  EXPECT_NEAR(site.ContextMib(kShippedContext), cudnn, 45);
  EXPECT_EQ(site.ContextMib(plain), site.ContextMib(kPlainContext))
      << "regardless of the assumed loading";
}

TEST(Calibration, LightTasksDetermineTheConstant) {
  // The formula is 10 % too low for ten heavy tasks. Five light tasks reveal the constant.
  std::vector<task::Observation> runs;
  for (int i = 0; i < 10; ++i) runs.push_back(Taught(i, 20'000, 600, "A100", 1.1));
  for (int i = 10; i < 15; ++i) runs.push_back(Taught(i, 100, 600));
  EXPECT_NEAR(Calibrate(runs, "A100").ContextMib(kShippedContext), 600, 30);
}

// The formula is 10 % too low for these 20 GiB models. That error of 2 GiB hides the site's
// constant of 600 MiB.
TEST(Calibration, LargeTasksDoNotChangeTheConstant) {
  std::vector<task::Observation> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(Taught(i, 20'000, 600, "A100", 1.1));
  const Site site = Calibrate(runs, "A100");
  EXPECT_EQ(site.ContextMib(kShippedContext), kShippedContext);
  EXPECT_THAT(site.reason, HasSubstr("as shipped: 0 of the finished models are small enough"));
}

TEST(Calibration, ManyBatchesOfOneModelCountOnce) {
  std::vector<task::Observation> runs;
  for (int i = 0; i < 20; ++i) {
    runs.push_back(Taught(i, 200 + 10 * i, 600));
    runs.back().relation = i < 17 ? "one" : "other";
  }
  EXPECT_EQ(Calibrate(runs, "A100").context_shift_mib, 0);
}

TEST(Calibration, DoesNotLearnTheFormulasError) {
  std::vector<task::Observation> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(Taught(i, 500 + 20 * i, 1712, "A100", 1.15));
  const Site site = Calibrate(runs, "A100");
  EXPECT_EQ(site.context_shift_mib, 0);
  EXPECT_THAT(site.reason, HasSubstr("within the formula's own error"));
  // Each task implies a different constant, so no constant is learned.
  for (int i = 0; i < 20; ++i) runs[static_cast<std::size_t>(i)] = Taught(i, 200, 200 + 200 * i);
  EXPECT_EQ(Calibrate(runs, "A100").context_shift_mib, 0);
}

TEST(Calibration, UsesTheConstantOnlyIfItPredictsTheSitesTasksBetter) {
  std::vector<task::Observation> runs;
  for (int i = 0; i < 5; ++i) runs.push_back(Taught(i, 200, 1'300));
  EXPECT_NE(Calibrate(runs, "A100").context_shift_mib, 0);
  for (int i = 5; i < 45; ++i) runs.push_back(Taught(i, 5'000, kShippedContext));
  const Site site = Calibrate(runs, "A100");
  EXPECT_EQ(site.context_shift_mib, 0);
  EXPECT_THAT(site.reason, HasSubstr("as shipped: a shift learned from 5 small models"));
}

TEST(Calibration, IgnoresUnusableRuns) {
  std::vector<task::Observation> runs = Many(5);
  const Site before = Calibrate(runs, "A100");
  task::Observation ran_out = Taught(100, 1000, 9'000), no_summary = Taught(101, 1000, 9'000);
  ran_out.ran_out = true;
  no_summary.formula.reset();
  runs.push_back(ran_out);
  runs.push_back(no_summary);
  EXPECT_EQ(Calibrate(runs, "A100").ratios, before.ratios);
  for (int i = 0; i < 100; ++i) runs.push_back(runs.front());
  EXPECT_EQ(Calibrate(runs, "A100").tasks, 5U) << "a repeated task counts once";
}

TEST(Calibration, ConstantStaysPlausible) {
  std::vector<task::Observation> runs;
  for (int i = 0; i < 5; ++i) runs.push_back(Taught(i, 500, 0, "A100", 0.2));
  EXPECT_EQ(Calibrate(runs, "A100").ContextMib(kShippedContext), 64);
}

TEST(Calibration, FactorMovesFromShippedToOwnRatios) {
  const auto site_of = [](std::size_t count, double ratio) {
    Site site;
    site.ratios.assign(count, ratio);
    return site;
  };
  EXPECT_DOUBLE_EQ(Site().Factor(0.9, 1.2), 1.2);
  EXPECT_DOUBLE_EQ(site_of(15, 1.5).Factor(0.9, 1.3), 1.4) << "the mean of the two factors";
  EXPECT_DOUBLE_EQ(site_of(30, 1.5).Factor(0.9, 1.3), 1.5);
  EXPECT_DOUBLE_EQ(site_of(30, 3.0).Factor(0.9, 1.3), 1.6)
      << "one kind of task must not determine all bounds";
  EXPECT_DOUBLE_EQ(site_of(30, 1.1).Factor(0.9, 1.3), 1.3)
      << "the factor is never below the shipped factor";
  EXPECT_DOUBLE_EQ(site_of(30, 1.1).Factor(0.99, 1.3), 1.3)
      << "thirty tasks are too few for this coverage";
  Site odd = site_of(12, 1.1);
  odd.ratios.back() = 3;
  EXPECT_DOUBLE_EQ(odd.Factor(0.95, 1.3), 1.3) << "one outlier does not set the bound";
  odd.ratios[10] = 2;
  EXPECT_DOUBLE_EQ(odd.Factor(0.95, 1.3), 0.4 * 2 + 0.6 * 1.3);
}

TEST(Calibration, FactorIsTheConformalQuantile) {
  Site site;
  for (int i = 1; i <= 99; ++i) site.ratios.push_back(1 + i / 100.0);
  EXPECT_DOUBLE_EQ(site.Factor(0.90, 1.5), 1.90);
  EXPECT_DOUBLE_EQ(site.Factor(0.95, 1.5), 1.95);
  EXPECT_DOUBLE_EQ(site.Factor(0.50, 1.3), 1.50);
}

TEST(Calibration, WarnsAboutValuesOfAnotherGpuType) {
  std::vector<task::Observation> runs = Many(6, "H100");
  const Site site = Calibrate(runs, "A100");
  EXPECT_NEAR(site.ContextMib(kShippedContext), 600, 30);
  EXPECT_THAT(site.Remark(), HasSubstr("learned on H100 and applied to A100"));
  for (int i = 0; i < 5; ++i) runs.push_back(Taught(i, 100, 900));
  EXPECT_NEAR(Calibrate(runs, "A100").ContextMib(kShippedContext), 900, 30)
      << "its own type takes precedence";
  EXPECT_EQ(Calibrate(runs, "A100").Remark(), "");
}

TEST(Calibration, UsesTheNewestRuns) {
  History history;
  for (int i = 0; i < 2'000; ++i) history.Add(Taught(i, 1'000, i < 1'000 ? 600 : 900));
  EXPECT_EQ(history.SiteFor("A100").tasks, kCalibrationRuns);
  EXPECT_NEAR(history.SiteFor("A100").ContextMib(kShippedContext), 900, 10);
}

TEST(Calibration, LearnsFromTheHistoryAndCanBeReset) {
  History history;
  for (const task::Observation& run : Many(5)) history.Add(run);
  EXPECT_EQ(history.SiteFor("A100").tasks, 5U);
  history.Add(Taught(77, 100, 600));
  EXPECT_EQ(history.SiteFor("A100").tasks, 6U);
  EXPECT_THAT(history.SiteFor("H100").Remark(), HasSubstr("learned on A100 and applied to H100"));
  history.ForgetCalibration();
  EXPECT_EQ(history.SiteFor("A100").tasks, 0U);
  EXPECT_EQ(history.OfSignature("77").size(), 1U) << "the peaks are kept";
}

}  // namespace
}  // namespace carma::estimate
