#include "cli/estimate/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace carma::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EstimateTextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    layers_.format = model::SummaryFormat::kTorchInfo;
    layers_.model = "ResNet\x1b[31m";
    layers_.params = 25'557'032;
    layers_.layers.resize(3);
    layers_.notes.push_back({model::Note::Kind::kInferred, "inputs were inferred"});
    question_.layers = &layers_;
    question_.batch = 32;
    question_.optimizer = estimate::Optimizer::kAdam;
    question_.gpu_type = "A100";
    question_.coverage = 0.9;
    sheet_.file = "resnet.txt";
    sheet_.layers = &layers_;
    sheet_.question = &question_;
    estimate::Answer answer;
    answer.point_mib = 8'192;
    answer.bound_mib = 10'240;
    answer.coverage = 0.9;
    answer.method = "structural";
    answer.terms = {{"context", 1'700}, {"kept for backward", 6'492}};
    answer.warnings = {"assumed fp32", "assumed one GPU"};
    sheet_.opinions.push_back({"auto", answer});
    sheet_.opinions.push_back(
        {"history", NotFound("this training job has not run on this server before")});
  }
  void AddDaemon() {
    sheet_.knowledge.emplace();
    sheet_.knowledge->method = "auto";
    sheet_.knowledge->coverage = 0.9;
    sheet_.knowledge->gpu_mib = 9'216;
    sheet_.knowledge->learns = true;
  }

  model::LayerList layers_;
  estimate::Question question_;
  EstimateSheet sheet_;
};

TEST_F(EstimateTextTest, OneLinePerEstimatorWithItsReason) {
  const std::string text = EstimateText(sheet_, false, {});
  EXPECT_THAT(text,
              AllOf(HasSubstr("resnet.txt: ResNet?[31m: torchinfo, 3 rows, 25.6 M parameters"),
                    HasSubstr("batch 32, adam, precision not given, 1 GPU, A100\n"),
                    HasSubstr("assumed fp32 (+1)"),
                    HasSubstr("this training job has not run on this server before"),
                    HasSubstr("8.0G"), HasSubstr("10.0G"), HasSubstr("90 %")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("context")), Not(HasSubstr("would promise"))));
  sheet_.optimizer = "Adam";
  EXPECT_THAT(EstimateText(sheet_, false, {}), HasSubstr("batch 32, adam, "));
  sheet_.optimizer = "AdamW";
  EXPECT_THAT(EstimateText(sheet_, false, {}), HasSubstr("batch 32, AdamW (as adam), "));
  layers_.params = 39'498;
  EXPECT_THAT(EstimateText(sheet_, false, {}), HasSubstr(", 3 rows, 39498 parameters\n"));
}

TEST_F(EstimateTextTest, ExplainingShowsTermsNotesAndCalibration) {
  EXPECT_THAT(EstimateText(sheet_, true, {}),
              AllOf(HasSubstr("1.7G  context\n"), HasSubstr("6.3G  kept for backward\n"),
                    HasSubstr("note: assumed one GPU\n"), HasSubstr("note: inputs were inferred\n"),
                    HasSubstr("calibration: as shipped: no daemon responded\n")));
  AddDaemon();
  EXPECT_THAT(EstimateText(sheet_, true, {}), HasSubstr("calibration: as shipped\n"));
  sheet_.site = {.gpu_type = "A100",
                 .taught_by = "A100",
                 .tasks = 12,
                 .context_shift_mib = -1'180,
                 .ratios = std::vector<double>(12, 1.25),
                 .reason = "learned from 12 small models, with a mean error of 3 %"};
  EXPECT_THAT(
      EstimateText(sheet_, true, {}),
      AllOf(HasSubstr("learned from 12 small models, with a mean error of 3 %; constant -1180 MiB"),
            HasSubstr("mixed with the shipped values until 30 tasks have finished")));
  sheet_.knowledge->learns = false;
  EXPECT_THAT(EstimateText(sheet_, true, {}), HasSubstr("does not learn"));
}

TEST_F(EstimateTextTest, TheDaemonsPromiseIsCutToTheLargestGpu) {
  AddDaemon();
  EXPECT_THAT(EstimateText(sheet_, false, {}), HasSubstr("carmad would promise at most 9.0G"));
  sheet_.knowledge->coverage = 0;
  EXPECT_THAT(EstimateText(sheet_, false, {}), HasSubstr("carmad would promise at most 8.0G"));
  sheet_.knowledge->method = "history";
  EXPECT_THAT(EstimateText(sheet_, false, {}), Not(HasSubstr("would promise")));
}

TEST_F(EstimateTextTest, StatedMemoryIsPromisedUnlessPredictionsTakePrecedence) {
  AddDaemon();
  estimate::Answer given;
  given.point_mib = given.bound_mib = 20'480;
  sheet_.opinions.push_back({"given", given});
  EXPECT_THAT(EstimateText(sheet_, false, {}),
              HasSubstr("carmad would promise 20.0G, as the task requests"));
  sheet_.knowledge->prefer_given = false;
  EXPECT_THAT(EstimateText(sheet_, false, {}), HasSubstr("carmad would promise at most 9.0G"));
}

TEST_F(EstimateTextTest, JsonHasAllFacts) {
  const Result<base::Json> json = base::ParseJson(EstimateJson(sheet_));
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ((*json)["estimates"][0]["point_mib"], 8'192);
  EXPECT_EQ((*json)["estimates"][0]["terms"][0]["name"], "context");
  EXPECT_EQ((*json)["estimates"][1]["error"],
            "this training job has not run on this server before");
  EXPECT_EQ((*json)["model"]["params"], 25'557'032);
  EXPECT_EQ((*json)["precision"], nullptr);
  EXPECT_FALSE((*json)["calibration"]["daemon"].get<bool>());
  sheet_.layers = nullptr;
  EXPECT_EQ((*base::ParseJson(EstimateJson(sheet_)))["model"], nullptr);
}

}  // namespace
}  // namespace carma::cli
