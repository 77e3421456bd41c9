#include "report/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/values/task.h"
#include "report/report.h"

namespace carma::report {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::Time ForecastTime(std::int64_t s) {
  return base::FromMs(s * 1000);
}

core::TaskRecord Ended(core::TaskState state = core::TaskState::kSucceeded) {
  core::TaskRecord record;
  record.state = state;
  record.attempt.Edit().started = ForecastTime(100);
  record.ended = ForecastTime(400);
  record.peak_mib = 9'000;
  record.estimate =
      core::Estimate{.peak_mib = 12'000, .method = "structural", .predicted_mib = 10'000};
  return record;
}

TEST(Forecasts, OfMemoryAreTheLikelyPeakAndThePromise) {
  EXPECT_THAT(ForecastsOf(Ended()),
              testing::ElementsAre(Forecast{"memory_mib", "structural", 10'000, 12'000, 9'000}));
  core::TaskRecord given = Ended();
  given.estimate = core::Estimate{.peak_mib = 8'000, .method = "given"};
  EXPECT_EQ(ForecastsOf(given).at(0).predicted, 8'000);
  given.peak_mib = 0;
  EXPECT_THAT(ForecastsOf(given), IsEmpty()) << "its memory was not measured";
}

TEST(Forecasts, OfDurationRequireACompletedTask) {
  core::TaskRecord record = Ended();
  record.estimate.reset();
  record.request.Edit().time_limit = base::Duration(600'000);
  EXPECT_THAT(ForecastsOf(record),
              testing::ElementsAre(Forecast{"duration_s", "time limit", 600, 600, 300}));
  record.state = core::TaskState::kTimedOut;
  EXPECT_THAT(ForecastsOf(record), IsEmpty());
  record.state = core::TaskState::kRunning;
  EXPECT_THAT(ForecastsOf(record), IsEmpty());
}

TEST(Forecasts, OfActivityCompareTheProfileWithTheSamples) {
  core::TaskRecord record = Ended();
  record.estimate.reset();
  record.profile.Edit().sm_active = 0.5;
  EXPECT_THAT(ForecastsOf(record), IsEmpty()) << "it was never measured alone";
  record.seen.Edit().sm_active = 0.6;
  EXPECT_THAT(ForecastsOf(record),
              testing::ElementsAre(Forecast{"sm_active", "history", 0.5, {}, 0.6}));
  record.profile.Edit().mps = core::MpsParameters{1, 0.5};
  EXPECT_EQ(ForecastsOf(record).at(0).by, "carma profile");
  record.profile = {};
  EXPECT_THAT(ForecastsOf(record), IsEmpty()) << "nothing was predicted";
}

TEST(Forecasts, OfSlowdownRequireNeighbours) {
  core::TaskRecord record = Ended();
  record.estimate.reset();
  record.attempt.Edit().launched = ForecastTime(100);
  record.attempt.Edit().sharing.method = core::SharingMethod::kMps;
  record.profile.Edit().alone = base::Duration(150'000);
  record.seen.Edit().alone = base::Duration(200'000);
  EXPECT_THAT(ForecastsOf(record), testing::ElementsAre(Forecast{"slowdown", "mps", 1.5, {}, 2.0}));
  core::TaskRecord alone = record;
  alone.seen.Edit().alone = base::Duration(300'000);
  EXPECT_THAT(ForecastsOf(alone), IsEmpty());
  core::TaskRecord unfollowed = record;
  unfollowed.seen.Edit().alone.reset();
  EXPECT_THAT(ForecastsOf(unfollowed), IsEmpty()) << "the daemon was restarted in between";
  record.state = core::TaskState::kFailed;
  EXPECT_THAT(ForecastsOf(record), IsEmpty()) << "it may have done only half of its work";
}

TEST(Forecasts, AreJudgedByQuantityAndMethod) {
  std::vector<RunTask> tasks(3);
  tasks[0].forecasts = {{"memory_mib", "structural", 100, 120, 110}};
  tasks[1].forecasts = {{"memory_mib", "structural", 100, 120, 130},
                        {"duration_s", "time limit", 600, {}, 300}};
  tasks[2].forecasts = {{"memory_mib", "given", 0, {}, 5}};
  const std::vector<ForecastMetrics> judged = JudgeForecasts(tasks);
  ASSERT_THAT(judged, SizeIs(2)) << "a prediction of 0 has no ratio";
  EXPECT_EQ(judged[0].what, "duration_s");
  EXPECT_EQ(judged[0].promised, 0);
  EXPECT_DOUBLE_EQ(judged[0].ratio.mean, 0.5);
  EXPECT_EQ(judged[1].by, "structural");
  EXPECT_EQ(judged[1].tasks, 2);
  EXPECT_DOUBLE_EQ(judged[1].ratio.mean, 1.2);
  EXPECT_EQ(judged[1].promised, 2);
  EXPECT_EQ(judged[1].kept, 1);
}

TEST(Forecasts, AreStoredAndShown) {
  RunRecord run{.label = "magm", .to = ForecastTime(500)};
  run.tasks = {{.id = 1,
                .submitted = ForecastTime(0),
                .ended = ForecastTime(400),
                .forecasts = ForecastsOf(Ended())}};
  const Report report = MakeReport(run);
  const auto again = ReportsFromJsonText(ToJsonText(report));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->front().run->tasks, report.run->tasks);
  EXPECT_EQ(again->front().metrics, report.metrics);
  EXPECT_THAT(ForecastTable({&report.metrics, 1}), HasSubstr("memory_mib  structural  magm"));
  EXPECT_THAT(ForecastTable({&report.metrics, 1}), HasSubstr("1 of 1"));
  EXPECT_THAT(TasksCsv({&report, 1}), HasSubstr(",10000,12000,9000,\n"));
  EXPECT_EQ(ForecastTable(std::vector<Metrics>(1)), "");
}

}  // namespace
}  // namespace carma::report
