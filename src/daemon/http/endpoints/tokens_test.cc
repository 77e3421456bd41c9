#include "daemon/http/endpoints/handlers.h"

#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

class TokensEndpointTest : public EndpointTest {
 protected:
  void SetUp() override {
    EndpointTest::SetUp();
    tokens_ = std::make_unique<Tokens>(state_dir_, [] { return 1'000'000; });
    ASSERT_TRUE(tokens_->Load());
  }
  Heard Asked(Answer (*endpoint)(const ServerServices&, const Call&), const Caller& caller,
              std::string id = "", std::string body = "", Query query = {}) {
    Call call = By(caller, std::move(id), "", std::move(body));
    call.request.peer = api::Peer{.uid = caller.uid, .gid = caller.gid};
    call.request.query = std::move(query);
    return Ask(ServerServices{.tokens = tokens_.get()}, endpoint, call);
  }
  std::unique_ptr<Tokens> tokens_;
};

TEST_F(TokensEndpointTest, UsersMakeListAndRevokeTheirTokens) {
  const Heard made = Asked(&MakeToken, kAda, "", R"({"name":"laptop","expires_s":3600})");
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(made.body.at("expires_ms"), 1'000'000 + 3'600'000);
  const std::string text = made.body.at("token");
  EXPECT_EQ(tokens_->Find(text)->uid, kAda.uid);
  const Heard list = Asked(&ListTokens, kAda);
  ASSERT_EQ(list.body.at("tokens").size(), 1U);
  EXPECT_EQ(list.body.at("tokens")[0].at("name"), "laptop");
  EXPECT_FALSE(list.body.at("tokens")[0].contains("token")) << "told once";
  EXPECT_TRUE(Asked(&ListTokens, kEve).body.at("tokens").empty());
  const std::string id = made.body.at("id").dump();
  EXPECT_EQ(Asked(&RevokeToken, kEve, id).status, 404);
  EXPECT_EQ(Asked(&RevokeToken, kAda, id).status, 200);
  EXPECT_FALSE(tokens_->Find(text));
}

TEST_F(TokensEndpointTest, AdministratorsSeeAndRevokeAllTokens) {
  const Heard made = Asked(&MakeToken, kAda);
  EXPECT_EQ(Asked(&ListTokens, kEve, "", "", {{"all", "1"}}).status, 403);
  EXPECT_EQ(Asked(&ListTokens, kRoot, "", "", {{"all", "1"}}).body.at("tokens").size(), 1U);
  EXPECT_EQ(Asked(&RevokeToken, kRoot, made.body.at("id").dump()).status, 200);
}

TEST_F(TokensEndpointTest, RefusesInvalidRequests) {
  for (const char* body : {"[]", R"({"name":1})", R"({"expires_s":1})", R"({"expires_s":1e12})",
                           R"({"user":"root"})"}) {
    EXPECT_EQ(Asked(&MakeToken, kAda, "", body).status, 400) << body;
  }
  EXPECT_EQ(Asked(&RevokeToken, kAda, "x").status, 400);
  EXPECT_EQ(Asked(&RevokeToken, kAda, "7").status, 404);
}

TEST_F(TokensEndpointTest, ShowTheCallersIdentity) {
  EXPECT_EQ(Asked(&ShowWho, kRoot).body.at("by"), "socket");
  EXPECT_EQ(Asked(&ShowWho, kRoot).body.at("admin"), true);
  Caller ada = kAda;
  ada.by_token = true;
  EXPECT_EQ(Asked(&ShowWho, ada).body.at("by"), "token");
  EXPECT_EQ(Asked(&ShowWho, {}).body.at("by"), "");
}

}  // namespace
}  // namespace carma::daemon
