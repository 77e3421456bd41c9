#include "lab/sim/validate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace carma::sim {
namespace {

using base::Duration;

TEST(Published, EveryPolicyCanBeRun) {
  for (const PublishedTrace trace :
       {PublishedTrace::kHeavy60, PublishedTrace::kMix90, PublishedTrace::kNewer60}) {
    const std::vector<PublishedPolicy> policies = PoliciesOf(trace);
    ASSERT_GE(policies.size(), 2u);
    EXPECT_EQ(policies.front().label, "exclusive");
    for (const PublishedPolicy& policy : policies) {
      const Result<RunOptions> options = OptionsOf(trace, policy);
      ASSERT_TRUE(options) << policy.label;
      EXPECT_TRUE(core::Validate(options->policy)) << policy.label;
    }
  }
}

TEST(RecognisePublished, RecognisesTracesByLengthAndLastSubmission) {
  const trace::Workload workload;
  std::vector<Arrival> arrivals(60, {Duration{0}, &workload});
  EXPECT_FALSE(RecognisePublished(arrivals));
  EXPECT_FALSE(RecognisePublished({}));
  arrivals.back().at = Duration{8'966'000};
  EXPECT_EQ(RecognisePublished(arrivals), PublishedTrace::kHeavy60);
  arrivals.back().at = Duration{13'767'000};
  EXPECT_EQ(RecognisePublished(arrivals), PublishedTrace::kNewer60);
}

TEST(Comparison, AgreementIsIndependentOfNoise) {
  Comparison row{.published = 10, .simulated = 12, .deviation = 1.5};
  EXPECT_TRUE(row.Agrees());  // the figure has no required range
  EXPECT_TRUE(row.WithinNoise());
  row.to = 11;
  EXPECT_FALSE(row.Agrees());
  row.deviation = 0.5;
  EXPECT_FALSE(row.WithinNoise());
}

// The comparison runs a load other than the published one, so the figures need not agree.
TEST(Validate, ComparesEveryFigureOfTheTrace) {
  const trace::Catalogue catalogue = *trace::Catalogue::BuiltIn();
  const std::vector<Arrival> arrivals = *Arrivals(*trace::BuiltInDemo60(), catalogue, "demo60");
  int last = 0;
  const Result<std::vector<Comparison>> comparisons =
      Validate(PublishedTrace::kNewer60, *ParseCluster("dgx-station-a100"), arrivals,
               {.runs = 2, .progress = [&](int done, int all) {
                  EXPECT_LE(done, all);
                  last = done;
                }});
  ASSERT_TRUE(comparisons) << comparisons.error().message;
  EXPECT_EQ(last, 4);
  ASSERT_EQ(comparisons->size(), 4u);
  const Comparison& makespan = comparisons->front();
  EXPECT_EQ(makespan.figure, Figure::kMakespanChange);
  EXPECT_LT(makespan.simulated, -0.05);
  EXPECT_GT(makespan.deviation, 0);
  EXPECT_LE(makespan.low, makespan.simulated);
  const std::string table = Table(*comparisons);
  EXPECT_NE(table.find("MAGM + GPUMemNet"), std::string::npos);
  EXPECT_NE(table.find("prediction"), std::string::npos);
}

TEST(ValidateModels, AgreeWithThePublishedMeasurements) {
  const std::vector<Comparison> rows = ValidateModels();
  EXPECT_GE(rows.size(), 10u);
  for (const Comparison& row : rows) EXPECT_TRUE(row.Agrees()) << Table({&row, 1});
}

}  // namespace
}  // namespace carma::sim
