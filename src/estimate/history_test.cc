#include "estimate/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "estimate/estimator.h"

namespace carma::estimate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

task::Observation Peaked(std::int64_t measured_mib, bool ran_out = false,
                         const std::string& signature = "s", const std::string& type = "A100") {
  task::Observation run;
  run.signature = signature;
  run.kin = "k";
  run.gpu_type = type;
  run.measured_mib = measured_mib;
  run.ran_out = ran_out;
  return run;
}

TEST(Recollect, PredictsTheNextRun) {
  struct Case {
    const char* name;
    std::vector<task::Observation> newest_first;
    std::int64_t point_mib, bound_mib;
    std::size_t runs;
  };
  const Case cases[] = {
      {"one run, widened by a tenth", {Peaked(1000)}, 1000, 1100, 1},
      {"rounded without a floating-point error", {Peaked(3000)}, 3000, 3300, 1},
      {"two equal runs, widened by half as much", {Peaked(1000), Peaked(1000)}, 1000, 1050, 2},
      {"many equal runs, widened by the minimum",
       {Peaked(1000), Peaked(1000), Peaked(1000), Peaked(1000), Peaked(1000)},
       1000,
       1030,
       5},
      {"a rise takes effect immediately",
       {Peaked(2000), Peaked(1000), Peaked(1000), Peaked(1000), Peaked(1000), Peaked(1000)},
       2000,
       2060,
       6},
      {"after three lower runs, the old peak still counts",
       {Peaked(1000), Peaked(1000), Peaked(1000), Peaked(2000), Peaked(2000), Peaked(2000),
        Peaked(2000)},
       2000,
       2060,
       7},
      {"after five lower runs, the point has fallen but the bound has not",
       {Peaked(1000), Peaked(1000), Peaked(1000), Peaked(1000), Peaked(1000), Peaked(2000)},
       1000,
       2060,
       6},
      {"out of memory: needs more than it had", {Peaked(1000, true)}, 1100, 1210, 0},
      {"more than it had, although an older run needed less",
       {Peaked(2000, true), Peaked(1000)},
       2200,
       2420,
       1},
      {"a later successful run counts more", {Peaked(1000), Peaked(2000, true)}, 1000, 1100, 1},
      {"only runs on the requested GPU type count",
       {Peaked(5000, false, "s", "H100"), Peaked(1000)},
       1000,
       1100,
       1},
  };
  for (const Case& c : cases) {
    const Recollection answer = Recollect(c.newest_first, "A100");
    EXPECT_EQ(answer.point_mib, c.point_mib) << c.name;
    EXPECT_EQ(answer.bound_mib, c.bound_mib) << c.name;
    EXPECT_EQ(answer.runs, c.runs) << c.name;
  }
}

TEST(Recollect, ReportsUncertainty) {
  const task::Observation elsewhere[] = {Peaked(1000, false, "s", "H100")};
  EXPECT_THAT(Recollect(elsewhere, "A100").remarks,
              ElementsAre(HasSubstr("measurements from H100 were applied to A100")));
  EXPECT_THAT(Recollect(elsewhere, "").remarks, IsEmpty());
  const task::Observation too_little[] = {Peaked(1000, true)};
  EXPECT_THAT(Recollect(too_little, "A100").remarks, ElementsAre(HasSubstr("needs more")));
}

TEST(History, KeepsTheNewestRunsOfEverySignature) {
  History history;
  history.Add(Peaked(1, false, "rare"));
  for (int i = 1; i <= 3 * task::kRunsPerSignature; ++i) history.Add(Peaked(i, false, "often"));
  EXPECT_EQ(history.All().size(), task::kRunsPerSignature + 1U);
  const std::vector<task::Observation> often = history.OfSignature("often");
  ASSERT_EQ(often.size(), static_cast<std::size_t>(task::kRunsPerSignature));
  EXPECT_EQ(often.front().measured_mib, 3 * task::kRunsPerSignature);
  EXPECT_EQ(history.OfSignature("rare").size(), 1U);
  EXPECT_THAT(history.OfSignature("never"), IsEmpty());
}

TEST(History, IsBounded) {
  History history;
  for (int i = 0; i < task::kMaxObservations + 10; ++i)
    history.Add(Peaked(i, false, std::to_string(i)));
  EXPECT_EQ(history.All().size(), static_cast<std::size_t>(task::kMaxObservations));
  EXPECT_THAT(history.OfSignature("9"), IsEmpty());
  EXPECT_EQ(history.OfSignature("10").size(), 1U);
  EXPECT_EQ(history.OfKin("k").front().measured_mib, task::kMaxObservations + 9);
}

// The index lets Calibrate() skip most runs, but must not change its result.
TEST(History, CalibratesWithItsNewestRuns) {
  base::Rng rng(4);
  History history;
  for (int i = 0; i < 3'000; ++i) {
    task::Observation run =
        Peaked(1'000 + static_cast<std::int64_t>(rng.Below(5'000)), rng.Below(6) == 0,
               "s" + std::to_string(rng.Below(150)), rng.Below(3) == 0 ? "H100" : "A100");
    if (rng.Below(5) > 0)
      run.formula = task::FormulaSplit{500, static_cast<std::int64_t>(rng.Below(4'000))};
    history.Add(std::move(run));
    if (i % 100 != 99) continue;
    std::vector<task::Observation> newest;
    for (const task::Observation& each : history.All()) {
      if (each.formula) newest.push_back(each);
    }
    if (newest.size() > kCalibrationRuns)
      newest.erase(newest.begin(), newest.end() - static_cast<std::ptrdiff_t>(kCalibrationRuns));
    for (const char* type : {"A100", "H100", "V100"}) {
      const Site site = history.SiteFor(type);
      const Site plain = Calibrate(newest, type);
      EXPECT_EQ(site.tasks, plain.tasks) << i;
      EXPECT_EQ(site.taught_by, plain.taught_by) << i;
      EXPECT_EQ(site.context_shift_mib, plain.context_shift_mib) << i;
      EXPECT_EQ(site.ratios, plain.ratios) << i;
    }
  }
  history.ForgetCalibration();
  EXPECT_EQ(history.SiteFor("A100").tasks, 0u);
}

TEST(History, AnswersAsAnEstimator) {
  const std::unique_ptr<Estimator> estimator = MakeFromHistory();
  Question question;
  EXPECT_THAT(estimator->Ask(question).error().message, HasSubstr("no history"));
  History history;
  question.history = &history;
  EXPECT_THAT(estimator->Ask(question).error().message, HasSubstr("no command"));
  question.signature = "s";
  EXPECT_THAT(estimator->Ask(question).error().message, HasSubstr("not run on this server before"));
  history.Add(Peaked(4000));
  const Result<Answer> answer = estimator->Ask(question);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->point_mib, 4000);
  EXPECT_EQ(answer->bound_mib, 4400);
  EXPECT_EQ(answer->method, "history");
}

TEST(ProfileFrom, UsesTheNewestKnownCpuCores) {
  std::vector<task::Observation> newest_first(3, Peaked(1000, false, "s", "A100"));
  newest_first[1].cpus = 6;
  newest_first[2].cpus = 2;
  EXPECT_EQ(ProfileFrom(newest_first, "A100", {}).cpus, 6);
}

TEST(ProfileFrom, UsesTheHighestShareOfTheOtherGpus) {
  std::vector<task::Observation> runs(3, Peaked(1000, false, "s", "A100"));
  EXPECT_EQ(ProfileFrom(runs, "A100", {}).others_share, std::nullopt);
  runs[1].others_share = 0.6;
  runs[2].others_share = 0.5;
  EXPECT_EQ(ProfileFrom(runs, "A100", {}).others_share, 0.6);
  runs[0].ran_out = true;
  EXPECT_EQ(ProfileFrom(runs, "A100", {}).others_share, 1);
}

TEST(ProfileFrom, UsesTheNewestActivityAndTheMedianRunTime) {
  const auto run = [](std::optional<double> sm_active, int alone_s, const std::string& type) {
    task::Observation observed = Peaked(1000, false, "s", type);
    observed.sm_active = sm_active;
    if (alone_s > 0) observed.alone = base::Duration{alone_s * 1000};
    return observed;
  };
  EXPECT_EQ(ProfileFrom({}, "A100", {}), core::Profile{});
  const std::vector<task::Observation> newest_first{
      run({}, 90, "A100"),  run(0.9, 10, "V100"), run(0.5, 70, "A100"), run(0.4, 100, "A100"),
      run(0.3, 80, "A100"), run({}, 60, "A100"),  run({}, 500, "A100"),
  };
  const core::Profile profile = ProfileFrom(newest_first, "A100", {});
  EXPECT_EQ(profile.sm_active, 0.5);
  EXPECT_EQ(profile.alone, base::Duration{80'000});
  const core::Profile elsewhere = ProfileFrom(newest_first, "H100", {{"H100", 1}});
  EXPECT_EQ(elsewhere.sm_active, 0.9);
  EXPECT_FALSE(elsewhere.alone);
  const core::Profile mixed =
      ProfileFrom(newest_first, "A100", {{"A100", 0.5}, {"V100", 0.2}, {"H100", 1}});
  EXPECT_EQ(mixed.alone, base::Duration{40'000}) << "median of 45, 2, 35, 50, 40 s on an H100";
}

}  // namespace
}  // namespace carma::estimate
