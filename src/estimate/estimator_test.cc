#include "estimate/estimator.h"

#include <gtest/gtest.h>

namespace carma::estimate {
namespace {

TEST(Estimator, GivenRepeatsTheUsersNumberAndItsSource) {
  Question question;
  EXPECT_EQ(MakeGiven()->Ask(question).error().code, ErrorCode::kNotFound);
  question.given_mib = 12'000;
  question.given_source = "rad";
  const Answer answer = *MakeGiven()->Ask(question);
  EXPECT_EQ(answer.point_mib, 12'000);
  EXPECT_EQ(answer.bound_mib, 12'000);
  EXPECT_EQ(answer.method, "rad");
}

TEST(Estimator, EveryEntryIsFoundByNameAndCreatesAnEstimator) {
  for (const EstimatorEntry& entry : Estimators()) {
    EXPECT_NE(entry.make(), nullptr);
    EXPECT_EQ(FindEstimator(entry.name), &entry);
  }
  EXPECT_EQ(FindEstimator("no such"), nullptr);
}

}  // namespace
}  // namespace carma::estimate
