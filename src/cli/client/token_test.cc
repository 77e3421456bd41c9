// Tests `carma token` by running the whole command against a fake daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/client/app_fixture.h"

namespace carma::cli {
namespace {

TEST_F(App, ATokenIsPrintedAloneAndListedWithoutItsSecret) {
  std::string asked;
  daemon_.On("POST /v1/tokens", [&](const api::Request& request) {
    asked = request.body;
    return api::Response{.status = 201, .body = R"({"id":3,"uid":7,"name":"x","created_ms":1000,
                                     "expires_ms":2000,"token":"carma_abc"})"};
  });
  const Ran made = Run({"token", "create", "laptop", "--expires", "7d"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, "carma_abc\n");
  EXPECT_EQ(asked, R"({"expires_s":604800,"name":"laptop"})");
  EXPECT_TRUE(made.err.starts_with("carma: token 3, valid until ")) << made.err;
  EXPECT_TRUE(made.err.ends_with("it is shown only once\n")) << made.err;
  EXPECT_EQ(Run({"token", "create", "--expires", "soon"}).exit_code, 2);
  EXPECT_EQ(Run({"token", "create", std::string(61, 'x')}).err,
            "carma: token name: expected at most 60 bytes\n");

  daemon_.On("GET /v1/tokens", [](const api::Request&) {
    return api::Response{.body = R"({"tokens":[{"id":3,"uid":7,"user":"ada","name":"laptop"},
                                               {"id":4,"uid":8,"name":"old"}]})"};
  });
  const Ran list = Run({"token", "list", "--all"});
  EXPECT_THAT(list.out, ::testing::ContainsRegex("3 +ada +laptop")) << list.err;
  EXPECT_THAT(list.out, ::testing::ContainsRegex("4 +8 +old")) << "no user name was recorded";

  daemon_.On("POST /v1/tokens/3/revoke",
             [](const api::Request&) { return api::Response{.body = "{}"}; });
  EXPECT_EQ(Run({"token", "revoke", "3"}).out, "Token 3 is revoked\n");
  EXPECT_EQ(Run({"token", "revoke", "4"}).exit_code, 1);
}

}  // namespace
}  // namespace carma::cli
