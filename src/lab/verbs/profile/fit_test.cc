#include "lab/verbs/profile/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lab/sim/models.h"
#include "profile/profiles.h"

namespace carma::cli {
namespace {

using ::testing::DoubleNear;

const std::vector<double> kU{0.6, 0.3, 0.85, 0.9};
const std::vector<sim::Load> kLoads{
    {0.6, 2.0, 0.4}, {0.3, 0.6, 0.2}, {0.85, 0.5, 1.2}, {0.9, 0.4, 0.7}};

double True(core::SharingMethod sharing, const SeenSlowdown& of) {
  std::vector<sim::Load> loads;
  for (const std::size_t member : of.members) loads.push_back(kLoads[member]);
  std::vector<double> speeds(loads.size());
  sim::Speeds({}, sharing, loads, speeds);
  return 1 / speeds[of.who];
}

std::vector<SeenSlowdown> AllPairs(core::SharingMethod sharing) {
  std::vector<SeenSlowdown> seen;
  for (std::size_t i = 0; i < kLoads.size(); ++i) {
    for (std::size_t j = i; j < kLoads.size(); ++j) {
      for (const std::size_t who : {0, 1}) {
        SeenSlowdown pair{.members = {i, j}, .who = who};
        pair.slowdown = True(sharing, pair);
        seen.push_back(pair);
      }
    }
  }
  return seen;
}

TEST(MpsFit, FindsTheParametersAlthoughSomePairsAreSaturated) {
  const MpsFit fit = FitMps(kU, AllPairs(core::SharingMethod::kMps));
  EXPECT_LT(fit.error, 1e-3);
  for (std::size_t i = 0; i < kLoads.size(); ++i) {
    for (std::size_t j = 0; j < kLoads.size(); ++j) {
      const double wanted = kLoads[i].sensitivity * kLoads[j].pressure;
      EXPECT_THAT(fit.sensitivity[i] * fit.pressure[j], DoubleNear(wanted, 0.01 * wanted))
          << i << " beside " << j;
    }
  }
}

TEST(MpsFit, HasTheDocumentedScale) {
  const MpsFit fit = FitMps(kU, AllPairs(core::SharingMethod::kMps));
  double sum = 0;
  for (std::size_t i = 0; i < kU.size(); ++i) sum += std::log(fit.pressure[i] / kU[i]);
  EXPECT_NEAR(std::exp(sum / 4), profile::kPressurePerActivity, 1e-9);
}

TEST(MpsFit, PredictsLargerGroups) {
  const MpsFit fit = FitMps(kU, AllPairs(core::SharingMethod::kMps));
  SeenSlowdown group{.members = {0, 1, 1, 2}, .who = 0};
  group.slowdown = True(core::SharingMethod::kMps, group);
  EXPECT_NEAR(PredictMps(kU, fit, group) / group.slowdown, 1, 0.01);
}

TEST(MpsFit, KeepsTheGuessOfAWorkloadWithoutMeetings) {
  const std::vector<SeenSlowdown> own{{.members = {0, 0}, .who = 0, .slowdown = 1.8}};
  const MpsFit fit = FitMps(kU, own);
  EXPECT_NEAR(fit.sensitivity[0] * fit.pressure[0], 0.8, 1e-3);
  EXPECT_NEAR(fit.pressure[0], profile::kPressurePerActivity * 0.6, 1e-9);
  EXPECT_NEAR(fit.sensitivity[1], 0.8, 1e-12);
}

TEST(MpsFit, TreatsSpeedUpsAsNoInterference) {
  const std::vector<SeenSlowdown> own{{.members = {1, 1}, .who = 0, .slowdown = 0.99}};
  const MpsFit fit = FitMps(kU, own);
  EXPECT_LT(fit.sensitivity[1] * fit.pressure[1], 0.01);
}

TEST(StreamsFit, FindsTheFactor) {
  std::vector<SeenSlowdown> seen = AllPairs(core::SharingMethod::kStreams);
  EXPECT_NEAR(FitStreams(kU, seen).a, 1.5, 1e-3);
  EXPECT_NEAR(PredictStreams(kU, 1.5, seen[3]), seen[3].slowdown, 1e-9);
}

}  // namespace
}  // namespace carma::cli
