#include "estimate/estimator.h"

#include <gtest/gtest.h>

namespace carma::estimate {
namespace {

TEST(Estimator, GivenRepeatsTheUsersNumberAndItsSource) {
  task::TaskSpec spec;
  EXPECT_EQ(MakeGiven()->Peak(spec).error().code, base::ErrorCode::kNotFound);
  spec.memory_mib = 12'000;
  spec.memory_source = "rad";
  EXPECT_EQ(*MakeGiven()->Peak(spec), (core::Estimate{12'000, "rad"}));
}

TEST(Estimator, FirstOfPassesOverEstimatorsThatSayNothing) {
  std::vector<std::unique_ptr<Estimator>> none;
  task::TaskSpec spec;
  EXPECT_EQ(MakeFirstOf(std::move(none))->Peak(spec).error().code, base::ErrorCode::kNotFound);
  std::vector<std::unique_ptr<Estimator>> two;
  two.push_back(MakeGiven());
  two.push_back(MakeGiven());
  spec.memory_mib = 7;
  EXPECT_EQ(MakeFirstOf(std::move(two))->Peak(spec)->peak_mib, 7);
}

}  // namespace
}  // namespace carma::estimate
