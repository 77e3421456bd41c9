#include "daemon/http/endpoints/handlers.h"

#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

class ClosingTest : public EndpointTest {
 protected:
  SharedServices Services() {
    EngineServices services = Basics();
    services.status = [this] {
      api::StatusView view;
      if (engine_->closing()) {
        view.closed = engine_->closing()->why;
        view.leave_by_ms = base::ToMs(engine_->closing()->empty_by);
      }
      return view;
    };
    return Shared(std::move(services));
  }
};

TEST_F(ClosingTest, AnAdministratorClosesTheServerAndOpensIt) {
  settings_.policy.slots.shutdown_notice = base::Duration(60'000);
  const base::Time before = clock_.Now();
  const Heard closed = Ask(Services(), &CloseServer, By(kRoot, "", "", R"({"reason":"kernel"})"));
  EXPECT_EQ(closed.body.at("closed"), "closed by root until the machine reboots: kernel");
  EXPECT_EQ(closed.body.at("leave_by_ms"), base::ToMs(before) + 60'000);
  ASSERT_TRUE(store_->ServerClosing().value()) << "it is durable";
  EXPECT_EQ(Ask(Services(), &CloseServer, By(kRoot, "", "", R"({"by_ms":1800000000000})"))
                .body.at("leave_by_ms"),
            1'800'000'000'000);
  EXPECT_EQ(Ask(Services(), &CloseServer, By(kRoot, "")).body.at("closed"),
            "closed by root until the machine reboots");
  EXPECT_EQ(store_->Drains()->size(), 0U) << "GPU drains do not change";
  EXPECT_EQ(Ask(Services(), &OpenServer, By(kRoot, "")).body.at("closed"), "");
  EXPECT_FALSE(store_->ServerClosing().value());
}

TEST_F(ClosingTest, RefusesUnauthorisedUsersAndInvalidRequests) {
  EXPECT_EQ(Ask(Services(), &CloseServer, By(kAda, "")).Message(),
            "only an administrator may close and reopen the server");
  EXPECT_EQ(Ask(Services(), &OpenServer, By(kAda, "")).status, 403);
  EXPECT_EQ(Ask(Services(), &CloseServer, By(kRoot, "", "", R"({"by_ms":"soon"})")).status, 400);
  EXPECT_THAT(Ask(Services(), &CloseServer, By(kRoot, "", "", R"({"until":1})")).Message(),
              HasSubstr("until"));
  clock_.Advance(std::chrono::hours(2));
  EXPECT_EQ(Ask(Services(), &CloseServer, By(kRoot, "", "", R"({"by_ms":9000000})")).Message(),
            "/by_ms: 1970-01-01T02:30:00.000Z has passed");
  EXPECT_FALSE(store_->ServerClosing().value());
}

}  // namespace
}  // namespace carma::daemon
