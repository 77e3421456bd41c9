#include "daemon/http/endpoints/handlers.h"

#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

class ReservationsTest : public EndpointTest {
 protected:
  SharedServices Services() {
    settings_.reservation_makers = {"eve"};
    return Shared(Basics());
  }
  // Makes a reservation that begins in this many minutes and lasts an hour.
  Heard Make(const Caller& caller, int minutes, const std::string& more) {
    const std::string from =
        std::to_string(base::ToMs(clock_.Now()) + std::int64_t{minutes} * 60'000);
    return Ask(Services(), &MakeReservation,
               By(caller, "", "", R"({"from_ms":)" + from + R"(,"length_s":3600)" + more + "}"));
  }
  Heard List() { return Ask(Services(), &ListReservations, Asking({})); }
};

TEST_F(ReservationsTest, AReservationOfAnAdministratorIsDurable) {
  const Heard made = Make(kRoot, 10, R"(,"users":["ada"],"gpus":["1"],"why":"demo")");
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(made.body.at("id"), 1);
  EXPECT_EQ(made.body.at("made_by"), "root");
  EXPECT_EQ(made.body.at("gpus"), base::Json({"GPU-b"})) << "regardless of its later index";
  EXPECT_EQ(made.body.at("gpu_indices"), base::Json({1}));
  EXPECT_EQ(made.body.at("holds"), false);
  ASSERT_EQ(List().body.at("reservations").size(), 1U);
  EXPECT_EQ(List().body.at("reservations")[0], made.body);
  ASSERT_EQ(store_->ReservationBook()->size(), 1U);

  clock_.Advance(std::chrono::minutes(11));
  Settle();
  EXPECT_EQ(List().body.at("reservations")[0].at("holds"), true);
  const Heard shown = Ask(Services(), &ListGpus, Asking({}));
  EXPECT_EQ(shown.body.at("gpus")[1].at("reserved")[0].at("whom"), "ada");
  EXPECT_TRUE(shown.body.at("gpus")[0].at("reserved").empty());

  clock_.Advance(std::chrono::minutes(60));
  Settle();
  EXPECT_TRUE(List().body.at("reservations").empty()) << "it is over";
}

TEST_F(ReservationsTest, ARestartRestoresThemAndReusesNoNumber) {
  Make(kRoot, 10, R"(,"users":["ada"],"gpus":["1"])");
  Make(kRoot, 20, R"(,"gpus":["0"],"repeat":"weekdays")");
  EXPECT_EQ(Ask(Services(), &RemoveReservation, By(kRoot, "2")).status, 200);
  engine_.reset();
  EngineOptions options;
  options.state_dir = state_dir_;
  engine_ = std::make_unique<Engine>(options, *store_, launcher_, clock_, *this);
  ASSERT_TRUE(engine_->Start({{"GPU-b", "A100", 41'000, 1'000}, {"GPU-a", "A100", 41'000, 1'000}}));
  Settle();
  ASSERT_EQ(List().body.at("reservations").size(), 1U);
  EXPECT_EQ(List().body.at("reservations")[0].at("gpu_indices"), base::Json({0})) << "the same GPU";
  EXPECT_EQ(Make(kRoot, 30, R"(,"gpus":["1"])").body.at("id"), 3);
}

TEST_F(ReservationsTest, NamesAReservedGpuThatIsMissingAfterARestart) {
  EXPECT_EQ(Make(kRoot, 10, R"(,"gpus":["0","1"])").body.at("missing_gpus"), base::Json::array());
  engine_.reset();
  EngineOptions options;
  options.state_dir = state_dir_;
  engine_ = std::make_unique<Engine>(options, *store_, launcher_, clock_, *this);
  ASSERT_TRUE(engine_->Start({{"GPU-b", "A100", 41'000, 1'000}, {"GPU-c", "A100", 41'000, 1'000}}));
  Settle();
  const base::Json reservation = List().body.at("reservations").at(0);
  EXPECT_EQ(reservation.at("gpu_indices"), base::Json({0}));
  EXPECT_EQ(reservation.at("missing_gpus"), base::Json({"GPU-a"}));
}

TEST_F(ReservationsTest, RefusesUnauthorisedUsersAndInvalidReservations) {
  EXPECT_THAT(Make(kAda, 10, R"(,"gpus":["1"])").Message(), HasSubstr("only an administrator"));
  EXPECT_EQ(Make(kEve, 10, R"(,"gpus":["1"])").status, 201) << "reserve.makers lists her";
  EXPECT_THAT(Make(kRoot, 10, R"(,"gpus":["1"])").Message(), HasSubstr("would not get its GPUs"));
  EXPECT_EQ(Make(kRoot, 10, R"(,"count":2)").status, 409);
  EXPECT_THAT(Make(kRoot, 10, R"(,"gpus":["7"])").Message(), HasSubstr("no GPU 7"));
  EXPECT_THAT(Make(kRoot, 10, R"(,"gpu_type":"h100")").Message(), HasSubstr("2x A100"));
  EXPECT_EQ(Make(kRoot, 10, R"(,"length":5)").status, 400);
  EXPECT_THAT(Make(kRoot, 10, R"(,"gpus":["0"],"accounts":["nlp"])").Message(),
              HasSubstr("there is no account 'nlp' (fair.accounts)"));
  EXPECT_THAT(Make(kRoot, 10, R"(,"gpus":["0"],"classes":["normla"])").Message(),
              HasSubstr("there is no class 'normla' (fair.classes), did you mean normal?"));
  EXPECT_EQ(Make(kRoot, -100, R"(,"gpus":["0"])").status, 400) << "the period has passed";
  EXPECT_EQ(Ask(Services(), &RemoveReservation, By(kAda, "1")).status, 403);
  EXPECT_EQ(Ask(Services(), &RemoveReservation, By(kRoot, "9")).status, 404);
  EXPECT_EQ(Ask(Services(), &RemoveReservation, By(kRoot, "x")).status, 400);
  EXPECT_EQ(Make(kRoot, 200, R"(,"gpus":["0"])").body.at("id"), 2);
  EXPECT_EQ(Ask(Services(), &RemoveReservation, By(kEve, "2")).status, 403) << "root made it";
  EXPECT_EQ(Ask(Services(), &RemoveReservation, By(kEve, "1")).status, 200);
}

}  // namespace
}  // namespace carma::daemon
