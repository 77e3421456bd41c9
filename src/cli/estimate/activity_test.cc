#include "cli/estimate/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/json.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ActivityText, ShowsTheActivityAndItsSource) {
  const api::KnowledgeView nothing;
  EXPECT_THAT(ActivityText(nothing, {}, {}),
              HasSubstr("SM activity: unknown, assumed to be 60 %\n"));
  const api::KnowledgeView seen{.sm_active = 0.3, .profile_by = "runs"};
  EXPECT_THAT(ActivityText(seen, {}, {}), HasSubstr("SM activity: 30 % when alone (by runs)\n"));
  EXPECT_THAT(ActivityText(seen, {}, {}), Not(HasSubstr("next to 60 %")));
  const api::KnowledgeView measured{.sm_active = 0.3,
                                    .sensitivity = 1,
                                    .pressure = 0.25,
                                    .iteration_ms = 31.25,
                                    .profile_by = "carma profile"};
  const std::string text = ActivityText(measured, {}, std::array{0.6, 0.3});
  EXPECT_THAT(text,
              HasSubstr("30 % when alone (by carma profile), s 1, p 0.25, 31.25 ms an iteration"));
  EXPECT_THAT(text, HasSubstr("next to an identical task: takes 1.25 times as long under MPS"))
      << "1 + s p";
  EXPECT_THAT(text, HasSubstr("next to 60 % + 30 %: takes 1.90 times as long under MPS"))
      << "unknown neighbours slow it down by their activity";
}

TEST(ActivityText, UsesBatchAndLayersWithoutAMeasurement) {
  const api::KnowledgeView seen{.sm_active = 0.5, .profile_by = "runs"};
  const std::string text = ActivityText(seen, {.grain = 0.25, .guess = {}}, {});
  EXPECT_THAT(
      text,
      HasSubstr("50 % when alone (by runs), s 1.08, p 0.348 (estimated from batch and layers)"));
  EXPECT_THAT(text, HasSubstr("next to an identical task: takes 1.37 times"));
  const base::Json json = ActivityJson(seen, {.grain = 0.25, .guess = {}}, {});
  EXPECT_EQ(json.at("sensitivity_by"), "layers");
  EXPECT_NEAR(json.at("sensitivity").get<double>(), 1.077, 0.001);
  EXPECT_EQ(ActivityJson(seen, {}, {}).at("sensitivity"), nullptr);
  EXPECT_EQ(ActivityJson({}, {.grain = 0.25, .guess = {}}, {}).at("sensitivity_by"), "");
}

TEST(ActivityText, BeforeTheFirstRunTheModelIsUsed) {
  const ModelWork work{.grain = {}, .guess = estimate::ActivityGuess{0.47, 0.1}};
  EXPECT_THAT(ActivityText({}, work, {}),
              HasSubstr("SM activity: about 47 % when alone (from the model's multiply-adds; mean "
                        "error 10 points)\n"));
  const api::KnowledgeView seen{.sm_active = 0.3, .profile_by = "runs"};
  EXPECT_THAT(ActivityText(seen, work, {}), HasSubstr("30 % when alone (by runs)"));
  EXPECT_EQ(ActivityJson({}, work, {}).at("guessed_sm_active"), 0.47);
  EXPECT_EQ(ActivityJson({}, work, {}).at("sm_active"), nullptr);
}

TEST(ActivityJson, HasTheSameFacts) {
  const api::KnowledgeView measured{
      .sm_active = 0.3, .sensitivity = 1, .pressure = 0.25, .profile_by = "carma profile"};
  const base::Json json = ActivityJson(measured, {}, std::array{0.6});
  EXPECT_EQ(json.at("by"), "carma profile");
  EXPECT_EQ(json.at("sensitivity_by"), "carma profile");
  EXPECT_EQ(json.at("iteration_ms"), nullptr);
  EXPECT_NEAR(json.at("slowdown_beside_itself").at("mps").get<double>(), 1.25, 1e-9);
  EXPECT_NEAR(json.at("slowdown_beside").at("mps").get<double>(), 1.6, 1e-9);
  EXPECT_GT(json.at("slowdown_beside").at("streams").get<double>(), 1.1);
  EXPECT_FALSE(ActivityJson(measured, {}, {}).contains("slowdown_beside"));
}

}  // namespace
}  // namespace carma::cli
