#include "daemon/engine/forecast_drift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/values/task.h"

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

core::TaskRecord Ended(std::int64_t seen_mib, const std::string& method = "structural") {
  core::TaskRecord record;
  record.state = core::TaskState::kSucceeded;
  record.ended = base::FromMs(1'000);
  record.peak_mib = seen_mib;
  record.estimate = core::Estimate{.peak_mib = 12'000, .method = method, .predicted_mib = 10'000};
  return record;
}

TEST(ForecastDrift, IsReportedOnceIfTooManyPromisesAreBroken) {
  ForecastDrift drift;
  int told = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string begun = drift.Take(Ended(i % 2 == 0 ? 13'000 : 9'000), 0.9);
    told += begun.empty() ? 0 : 1;
  }
  EXPECT_EQ(told, 1);
  EXPECT_THAT(drift.Sentences(),
              ElementsAre("6 of the last 12 tasks estimated by structural used more than they were "
                          "promised; about 1 were expected"));
}

TEST(ForecastDrift, EndsWhenPromisesAreKeptAgain) {
  ForecastDrift drift;
  for (int i = 0; i < 8; ++i) drift.Take(Ended(13'000), 0.9);
  EXPECT_FALSE(drift.Sentences().empty());
  for (std::size_t i = 0; i < ForecastDrift::kLast; ++i) drift.Take(Ended(9'000), 0.9);
  EXPECT_THAT(drift.Sentences(), IsEmpty());
}

TEST(ForecastDrift, AllowsTheConfiguredShareOfBrokenPromises) {
  ForecastDrift drift;
  for (int i = 0; i < 40; ++i) drift.Take(Ended(i % 10 == 0 ? 13'000 : 9'000), 0.9);
  EXPECT_THAT(drift.Sentences(), IsEmpty());
}

TEST(ForecastDrift, AlsoReportsFarTooHighPredictions) {
  ForecastDrift drift;
  for (int i = 0; i < 19; ++i) drift.Take(Ended(3'000), 0.9);
  EXPECT_THAT(drift.Sentences(), IsEmpty()) << "too few for a median";
  EXPECT_THAT(drift.Take(Ended(3'000), 0.9),
              HasSubstr("used less than 30 % of what was predicted"));
}

TEST(ForecastDrift, IgnoresFewTasksAndStatedMemory) {
  ForecastDrift drift;
  for (std::size_t i = 0; i + 1 < ForecastDrift::kLeast; ++i) drift.Take(Ended(13'000), 0.9);
  EXPECT_THAT(drift.Sentences(), IsEmpty());
  for (int i = 0; i < 20; ++i) {
    core::TaskRecord stated = Ended(13'000, "given");
    stated.request.Edit().memory_mib = 12'000;
    drift.Take(stated, 0.9);
    drift.Take(Ended(2'000, "prior"), 0.9);
  }
  EXPECT_THAT(drift.Sentences(), IsEmpty());
}

TEST(ForecastDrift, ActivityDriftsIfHalfOfTheTasksAreFarOff) {
  ForecastDrift drift;
  core::TaskRecord record = Ended(13'000);
  record.estimate.reset();
  record.request.Edit().memory_mib = 12'000;
  record.profile.Edit().sm_active = 0.4;
  record.seen.Edit().sm_active = 0.5;
  for (int i = 0; i < 20; ++i) drift.Take(record, 0.9);
  EXPECT_THAT(drift.Sentences(), IsEmpty()) << "an excess of a quarter is within the usual error";
  record.seen.Edit().sm_active = 0.8;
  for (int i = 0; i < 21; ++i) drift.Take(record, 0.9);
  EXPECT_THAT(drift.Sentences(),
              ElementsAre("half of the last 40 tasks kept the SMs at least 2.0 times as busy as "
                          "predicted (history)"));
  record.seen.Edit().sm_active = 0.4;
  for (int i = 0; i < 40; ++i) drift.Take(record, 0.9);
  EXPECT_THAT(drift.Sentences(), IsEmpty());
}

TEST(ForecastDrift, SlowdownDriftsLikeActivity) {
  ForecastDrift drift;
  core::TaskRecord record = Ended(0);
  record.attempt.Edit().launched = base::FromMs(0);
  record.ended = base::FromMs(300'000);
  record.attempt.Edit().sharing.method = core::SharingMethod::kStreams;
  record.profile.Edit().alone = base::Duration(200'000);
  record.seen.Edit().alone = base::Duration(100'000);
  std::string begun;
  for (int i = 0; i < 20; ++i) begun = drift.Take(record, 0.9);
  EXPECT_EQ(begun,
            "half of the last 20 tasks with neighbours were slowed down at most 0.5 times as much "
            "as predicted (streams)");
}

TEST(ForecastDrift, WithoutCoverageHalfOfTheTasksMayExceedThePrediction) {
  ForecastDrift drift;
  for (int i = 0; i < 40; ++i) drift.Take(Ended(i % 2 == 0 ? 13'000 : 9'000), 0);
  EXPECT_THAT(drift.Sentences(), IsEmpty());
}

TEST(ChanceOfAtLeast, IsTheBinomialTail) {
  EXPECT_DOUBLE_EQ(ChanceOfAtLeast(0, 10, 0.1), 1);
  EXPECT_NEAR(ChanceOfAtLeast(1, 10, 0.1), 1 - 0.3486784401, 1e-9);
  EXPECT_NEAR(ChanceOfAtLeast(5, 10, 0.5), 0.623046875, 1e-12);
  EXPECT_NEAR(ChanceOfAtLeast(10, 10, 0.5), 0.0009765625, 1e-12);
}

}  // namespace
}  // namespace carma::daemon
