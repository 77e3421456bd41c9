#include "estimate/estimator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "estimate/calibration.h"
#include "estimate/history.h"

namespace carma::estimate {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TransformerConfig Small() {
  TransformerConfig config;
  config.family = "llama";
  config.layers = 4;
  config.hidden = 256;
  config.heads = config.kv_heads = 4;
  config.head_width = 64;
  config.feed_forward = 1024;
  config.vocabulary = 1000;
  return config;
}

TEST(TransformerEstimator, AssumesTheLastLengthOrShowsTheEffectOfStatingOne) {
  const TransformerConfig config = Small();
  Question question;
  question.transformer = &config;
  question.plan = TrainingPlan{};
  question.assumes_length = true;
  question.assumed = {"sequence length unknown: 2048 tokens assumed (--seq-len)"};
  const auto transformer = MakeTransformer();
  const auto assumed = transformer->Ask(question);
  ASSERT_TRUE(assumed);
  EXPECT_THAT(assumed->warnings,
              Contains(HasSubstr("(--seq-len); with 512 tokens the task would need")));
  History history;
  task::Observation run;
  run.signature = "another";
  run.kin = "train.py";
  run.length = 128;
  run.measured_mib = 1'000;
  history.Add(run);
  question.history = &history;
  question.kin = "train.py";
  const auto known = transformer->Ask(question);
  ASSERT_TRUE(known);
  EXPECT_LT(known->point_mib, assumed->point_mib);
  EXPECT_THAT(known->warnings, Contains(HasSubstr("128 tokens assumed, as in the last run")));
  EXPECT_THAT(known->warnings, Not(Contains(HasSubstr("2048"))));
}

TEST(TransformerEstimator, UsesTheContextMeasuredOnTheServer) {
  const TransformerConfig config = Small();
  Question question;
  question.transformer = &config;
  question.plan = TrainingPlan{};
  const auto transformer = MakeTransformer();
  const auto shipped = transformer->Ask(question);
  ASSERT_TRUE(shipped) << shipped.error().message;
  Site site;
  site.gpu_type = "H100";
  site.taught_by = "A100";
  site.context_shift_mib = -1000;  // 455 MiB without additional libraries
  question.site = &site;
  const auto learned = transformer->Ask(question);
  ASSERT_TRUE(learned);
  EXPECT_EQ(shipped->point_mib - learned->point_mib, 808 - 455);
  EXPECT_EQ(shipped->bound_mib - learned->bound_mib, 808 - 455);
  EXPECT_EQ(learned->terms.front().mib, 455 + 16);
  EXPECT_EQ(learned->warnings.size(), shipped->warnings.size() + 1) << "another type's value";
}

}  // namespace
}  // namespace carma::estimate
