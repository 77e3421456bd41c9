#include "estimate/estimator.h"

#include <gtest/gtest.h>

#include "estimate/calibration.h"

namespace carma::estimate {
namespace {

TEST(TransformerEstimator, TheContextIsThatOfTheServer) {
  TransformerConfig config;
  config.family = "llama";
  config.layers = 4;
  config.hidden = 256;
  config.heads = config.kv_heads = 4;
  config.head_width = 64;
  config.feed_forward = 1024;
  config.vocabulary = 1000;
  Question question;
  question.transformer = &config;
  question.plan = TrainingPlan{};
  const auto transformer = MakeTransformer();
  const auto shipped = transformer->Ask(question);
  ASSERT_TRUE(shipped) << shipped.error().message;
  Site site;
  site.gpu_type = "H100";
  site.taught_by = "A100";
  site.context_shift_mib = -1000;  // 455 MiB for a process without further libraries
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
