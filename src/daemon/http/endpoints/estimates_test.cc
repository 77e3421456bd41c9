#include "daemon/http/endpoints/handlers.h"

#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

class KnowledgeTest : public EndpointTest {
 protected:
  void SetUp() override {
    EndpointTest::SetUp();
    rules_.gpu_type = "A100";
    rules_.gpu_mib = 40'000;
  }
  SharedServices Services() {
    EngineServices services = Basics();
    services.rules = rules_;
    return Shared(std::move(services));
  }

  estimate::AppraisalRules rules_;
};

TEST_F(KnowledgeTest, ReportsThatTheServerDoesNotLearn) {
  const Heard heard = Ask(Services(), &ShowKnowledge, Asking({}));
  EXPECT_EQ(heard.status, 200);
  EXPECT_EQ(heard.body.at("learns"), false);
  EXPECT_EQ(heard.body.at("gpu_mib"), 40'000);
}

TEST_F(KnowledgeTest, ListsRunsOfTheRequestedSignature) {
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

TEST_F(KnowledgeTest, ShowsTheProfileOfTheSignature) {
  const auto asked = [&] {
    return Ask(Services(), &ShowKnowledge, Asking({{"signature", "one"}})).body;
  };
  EXPECT_EQ(asked().at("sm_active"), nullptr);
  EXPECT_EQ(asked().at("profile_by"), "");
  auto history = std::make_shared<estimate::History>();
  history->Add(
      {.signature = "one", .gpu_type = "A100", .sm_active = 0.7, .alone = base::Duration(90'000)});
  rules_.history = history;
  EXPECT_EQ(asked().at("sm_active"), 0.7);
  EXPECT_EQ(asked().at("alone_ms"), 90'000);
  EXPECT_EQ(asked().at("profile_by"), "runs");
  profile::WorkloadProfile line;
  line.signature = "one";
  line.gpu_type = "A100";
  line.sm_active = 0.5;
  line.sensitivity = 1.25;
  line.pressure = 0.25;
  line.time_s = 60;
  line.iterations = 1'000;
  rules_.measured = std::make_shared<const estimate::MeasuredProfiles>(std::vector{line});
  EXPECT_EQ(asked().at("sm_active"), 0.5);
  EXPECT_EQ(asked().at("sensitivity"), 1.25);
  EXPECT_EQ(asked().at("alone_ms"), 90'000);
  EXPECT_EQ(asked().at("iteration_ms"), 60);
  EXPECT_EQ(asked().at("profile_by"), "carma profile");
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
