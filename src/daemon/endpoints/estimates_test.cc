#include "daemon/endpoints/estimates.h"

#include "daemon/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

class KnowledgeTest : public EndpointTest {
 protected:
  void SetUp() override {
    EndpointTest::SetUp();
    rules_.gpu_type = "A100";
    rules_.gpu_mib = 40'000;
  }
  EstimateServices Services() { return {*engine_, rules_}; }

  estimate::AppraisalRules rules_;
};

TEST_F(KnowledgeTest, AServerThatDoesNotLearnSaysSo) {
  const Heard heard = Ask(Services(), &ShowKnowledge, Asking({}));
  EXPECT_EQ(heard.status, 200);
  EXPECT_EQ(heard.body.at("learns"), false);
  EXPECT_EQ(heard.body.at("gpu_mib"), 40'000);
}

TEST_F(KnowledgeTest, RunsAreThoseOfTheSignatureAskedAbout) {
  auto history = std::make_shared<estimate::History>();
  task::Observation run;
  run.signature = "one";
  run.gpu_type = "A100";
  run.measured_mib = 3'000;
  history->Add(run);
  rules_.history = history;
  EXPECT_EQ(Ask(Services(), &ShowKnowledge, Asking({{"signature", "two"}})).body.at("runs").size(),
            0U);
  const Heard heard = Ask(Services(), &ShowKnowledge, Asking({{"signature", "one"}}));
  EXPECT_EQ(heard.body.at("learns"), true);
  ASSERT_EQ(heard.body.at("runs").size(), 1U);
  EXPECT_EQ(heard.body.at("runs")[0].at("measured_mib"), 3'000);
}

TEST_F(KnowledgeTest, AdministratorsResetTheCalibration) {
  EXPECT_EQ(Ask(Services(), &ForgetCalibration, By(kAda, "")).Message(),
            "only an administrator may reset the calibration");
  const Heard heard = Ask(Services(), &ForgetCalibration, By(kRoot, ""));
  EXPECT_EQ(heard.status, 200);
  EXPECT_EQ(heard.body, base::Json({{"reset", true}}));
}

}  // namespace
}  // namespace carma::daemon
