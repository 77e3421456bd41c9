#include "daemon/http/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

Result<Unit> Echo(const Call& call, const api::Responder& reply) {
  reply(api::Response{.body = call.id + "/" + call.verb + " by " + call.caller.user +
                              (call.caller.admin ? ", administrator" : "")});
  return Unit{};
}

class RoutesTest : public ::testing::Test {
 protected:
  void Open(std::uint32_t own_uid, std::vector<std::string> admins = {},
            std::vector<std::string> allow_users = {},
            std::vector<std::uint32_t> allow_groups = {}) {
    routes_ = std::make_unique<Routes>(
        Routes::Options{
            own_uid, std::move(admins),
            [this](std::uint32_t uid, std::function<void(Result<base::KnownUser>)> call) {
              if (names_wait_) return waiting_.push_back(std::move(call));
              const auto found = names_.find(uid);
              if (found == names_.end()) return call(Unavailable("nobody can tell"));
              call(base::KnownUser{found->second, uid, groups_});
            },
            std::move(allow_users), std::move(allow_groups),
            [this](std::string_view token) {
              const auto found = tokens_.find(std::string(token));
              return found == tokens_.end() ? std::nullopt : std::optional(found->second);
            }},
        std::vector<Endpoint>{
            {"GET", "/v1/things/{id}", Access::kEverybody, &Echo},
            {"POST", "/v1/things/{id}/paint", Access::kUsers,
             [](const Call&, const api::Responder&) {
               return Result<Unit>(Conflict("it is wet"));
             }},
            {"POST", "/v1/things/{id}/{verb}", Access::kUsers, &Echo},
            {"GET", "/v1/later", Access::kEverybody, nullptr},
            {"POST", "/v1/own/{id}/{verb}", Access::kOwners, &Echo},
            {"GET", "/v1/whoami", Access::kWhoever, &Echo},
            {"GET", "/v1/read", Access::kReaders, &Echo},
            {"GET", "/v1/things", Access::kEverybody, &Echo, "state limit"},
            {"GET", "/metrics", Access::kEverybody, &Echo},
        },
        "no GPU yet");
  }
  // uid: empty if the request comes over TCP.
  api::Response Ask(const std::string& method, const std::string& path,
                    std::optional<std::uint32_t> uid, const std::string& token = "") {
    api::Request request{.method = method, .path = path};
    if (!token.empty()) request.bearer_token = token;
    if (uid) request.peer = api::Peer{.uid = *uid, .gid = *uid, .groups = groups_};
    routes_->Handle(std::move(request), api::Responder([this](api::Response response) {
                      heard_ = std::move(response);
                    }));
    return std::exchange(heard_, {.status = 0});
  }

  std::map<std::uint32_t, std::string> names_{{0, "root"}, {1000, "ada"}, {1001, "eve"}};
  std::map<std::string, api::Peer> tokens_;
  std::vector<std::uint32_t> groups_;  // the caller's groups
  bool names_wait_ = false;
  std::vector<std::function<void(Result<base::KnownUser>)>> waiting_;
  std::unique_ptr<Routes> routes_;
  api::Response heard_{.status = 0};
};

TEST_F(RoutesTest, RecognisesEndpointsThatAreNotReady) {
  Open(0);
  EXPECT_FALSE(routes_->CanHandle({.method = "GET", .path = "/v1/later"}));
  for (const std::string path : {"/v1/whoami", "/v1/nowhere"})
    EXPECT_TRUE(routes_->CanHandle({.method = "GET", .path = path})) << path;
  EXPECT_TRUE(routes_->CanHandle({.method = "POST", .path = "/v1/later"})) << "the wrong method";
}

TEST_F(RoutesTest, UsesTheFirstMatchingRow) {
  Open(0);
  EXPECT_EQ(Ask("GET", "/v1/things/7", 1000).body, "7/ by ");
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1000).body, "7/move by ada");
  const api::Response wet = Ask("POST", "/v1/things/7/paint", 1000);
  EXPECT_EQ(wet.status, 409);
  EXPECT_THAT(wet.body, HasSubstr("it is wet"));
}

TEST_F(RoutesTest, RefusesRequestsOutsideTheTable) {
  Open(0);
  const api::Response none = Ask("GET", "/v1/nothing", 1000);
  EXPECT_EQ(none.status, 404);
  EXPECT_THAT(none.body, HasSubstr("GET /v1/nothing: no such endpoint"));
  const api::Response method = Ask("PUT", "/v1/things/7", 1000);
  EXPECT_EQ(method.status, 405);
  using Header = std::pair<std::string_view, std::string>;
  EXPECT_THAT(method.headers, ::testing::ElementsAre(Header("Allow", "GET")));
  EXPECT_THAT(method.body, HasSubstr("PUT /v1/things/7: this method is not supported"));
}

TEST_F(RoutesTest, RefusesUnknownParameters) {
  Open(0);
  const auto ask = [&](const std::string& path, const std::string& name) {
    api::Request request{.method = "GET", .path = path, .query = {{name, "failed"}}};
    routes_->Handle(std::move(request), api::Responder([this](api::Response response) {
                      heard_ = std::move(response);
                    }));
    return std::exchange(heard_, {.status = 0});
  };
  EXPECT_EQ(ask("/v1/things", "state").status, 200);
  const api::Response wrong = ask("/v1/things", "stat");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body,
              HasSubstr("no parameter 'stat', did you mean state? (expected state, limit)"));
  EXPECT_THAT(ask("/v1/things/7", "foo").body, HasSubstr("no parameter 'foo' (expected none)"));
  EXPECT_EQ(ask("/metrics", "foo").status, 200);
}

TEST_F(RoutesTest, RefusesARepeatedParameter) {
  Open(0);
  api::Request request{.method = "GET", .path = "/v1/things", .query = {}};
  request.query = {{"state", "failed"}, {"limit", "1"}, {"state", "queued"}};
  routes_->Handle(std::move(request),
                  api::Responder([this](api::Response response) { heard_ = std::move(response); }));
  EXPECT_EQ(heard_.status, 400);
  EXPECT_THAT(heard_.body, HasSubstr("parameter 'state' is given more than once"));
}

TEST_F(RoutesTest, UsersWhoAreNotAllowedMayOnlyRead) {
  Open(0, {"eve"}, {"ada"}, {70});
  names_[1002] = "bob";
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1000).status, 200) << "ada is in allow_users";
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1001).status, 200) << "eve is an administrator";
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 0).status, 200);
  const api::Response refused = Ask("POST", "/v1/things/7/move", 1002);
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("bob has read-only access to this server"));
  EXPECT_EQ(Ask("GET", "/v1/things/7", 1002).status, 200);
  groups_ = {60, 70};
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1002).status, 200) << "as a member of the group";
  groups_.clear();
  Open(0, {}, {}, {1002});
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1002).status, 200) << "as their primary group";
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1000).status, 403);
}

TEST_F(RoutesTest, EndpointsThatAreNotReadyAnswerWithTheReason) {
  Open(0);
  const api::Response later = Ask("GET", "/v1/later", std::nullopt);
  EXPECT_EQ(later.status, 503);
  EXPECT_THAT(later.body, HasSubstr("no GPU yet"));
}

TEST_F(RoutesTest, AllowsOnlyReadingOverTcp) {
  Open(0);
  EXPECT_EQ(Ask("GET", "/v1/things/7", std::nullopt).status, 200);
  const api::Response denied = Ask("POST", "/v1/things/7/move", std::nullopt);
  EXPECT_EQ(denied.status, 403);
  EXPECT_THAT(denied.body, HasSubstr("access over TCP is read-only"));
}

TEST_F(RoutesTest, ATokenAllowsActionsOnItsUsersTasksOnly) {
  Open(0, {"eve"}, {"ada"});
  tokens_ = {{"adas", {.uid = 1000}}, {"eves", {.uid = 1001}}, {"bobs", {.uid = 1002}}};
  names_[1002] = "bob";
  EXPECT_EQ(Ask("POST", "/v1/own/7/move", std::nullopt, "adas").body, "7/move by ada");
  EXPECT_EQ(Ask("POST", "/v1/own/7/move", std::nullopt, "eves").body, "7/move by eve")
      << "a token never grants administrator privileges";
  EXPECT_THAT(Ask("POST", "/v1/own/7/move", std::nullopt, "bobs").body,
              HasSubstr("has read-only access"));
  EXPECT_THAT(Ask("POST", "/v1/own/7/move", std::nullopt, "stolen").body,
              HasSubstr("the token is unknown"));
  EXPECT_THAT(Ask("POST", "/v1/own/7/move", std::nullopt).body, HasSubstr("carma token create"));
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", std::nullopt, "adas").status, 403)
      << "other calls need the Unix socket";
  EXPECT_EQ(Ask("POST", "/v1/own/7/move", 1001, "adas").body, "7/move by eve, administrator")
      << "the kernel's identification takes precedence";
}

TEST_F(RoutesTest, ATokenActsWithItsUsersCurrentGroups) {
  Open(0, {}, {}, {100});
  tokens_ = {{"adas", {.uid = 1000, .token_of = "ada"}}};
  groups_ = {100};
  EXPECT_EQ(Ask("POST", "/v1/own/7/move", std::nullopt, "adas").body, "7/move by ada");
  groups_ = {};
  EXPECT_THAT(Ask("POST", "/v1/own/7/move", std::nullopt, "adas").body,
              HasSubstr("has read-only access"));
  groups_ = {100};
  names_[1000] = "hal";
  EXPECT_THAT(Ask("POST", "/v1/own/7/move", std::nullopt, "adas").body,
              HasSubstr("the token belongs to ada, but UID 1000 now has a different name"));
}

TEST_F(RoutesTest, ShowsTheCallersIdentity) {
  Open(0);
  tokens_ = {{"adas", {.uid = 1000}}};
  EXPECT_EQ(Ask("GET", "/v1/whoami", std::nullopt).body, "/ by ");
  EXPECT_EQ(Ask("GET", "/v1/whoami", std::nullopt, "adas").body, "/ by ada");
  EXPECT_EQ(Ask("GET", "/v1/whoami", 1001).body, "/ by eve");
  EXPECT_EQ(Ask("GET", "/v1/whoami", std::nullopt, "stolen").status, 403);
  EXPECT_EQ(Ask("GET", "/v1/things/7", std::nullopt, "stolen").status, 200)
      << "reading needs no token";
}

TEST_F(RoutesTest, IdentifiesReadersByNameAndNeverRefusesThem) {
  Open(0, {"eve"}, {"bob"});
  EXPECT_EQ(Ask("GET", "/v1/read", 1000).body, "/ by ada") << "she is not in allow_users";
  EXPECT_EQ(Ask("GET", "/v1/read", 1001).body, "/ by eve, administrator");
  EXPECT_EQ(Ask("GET", "/v1/read", std::nullopt).body, "/ by ");
  names_.clear();
  EXPECT_EQ(Ask("GET", "/v1/read", 1000).body, "/ by ");
  EXPECT_EQ(Ask("GET", "/v1/read", 0).body, "/ by , administrator");
}

TEST_F(RoutesTest, AdministratorsAreRootTheDaemonsUserAndConfiguredUsers) {
  Open(0, {"eve"});
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 0).body, "7/move by root, administrator");
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1000).body, "7/move by ada");
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1001).body, "7/move by eve, administrator");
  Open(1000);
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1000).body, "7/move by ada, administrator");
}

TEST_F(RoutesTest, WithoutRootRightsItServesOneUserAndRoot) {
  Open(1000);
  EXPECT_EQ(Ask("GET", "/v1/things/7", 0).status, 200);
  const api::Response denied = Ask("GET", "/v1/things/7", 1001);
  EXPECT_EQ(denied.status, 403);
  EXPECT_THAT(denied.body, HasSubstr("this carmad is not running as root and serves only ada"));
  names_.clear();
  EXPECT_THAT(Ask("GET", "/v1/things/7", 1001).body, HasSubstr("serves only user 1000"));
}

TEST_F(RoutesTest, ChangesNothingIfTheUserNameIsUnavailable) {
  Open(0);
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1002).status, 503);
}

TEST_F(RoutesTest, ALateUserNameBlocksNoOtherRequest) {
  Open(0);
  names_wait_ = true;
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 1000).status, 0);
  EXPECT_EQ(Ask("GET", "/v1/things/8", 1000).status, 200) << "reading needs no name";
  routes_.reset();
  waiting_.at(0)(base::KnownUser{"ada"});
  EXPECT_EQ(heard_.body, "7/move by ada");
}

TEST_F(RoutesTest, UsersWithoutANameMayOnlyRead) {
  Open(0);
  names_[165'540] = "165540";
  const api::Response refused = Ask("POST", "/v1/things/7/move", 165'540);
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("UID 165540 has no user name on this server"));
  EXPECT_EQ(Ask("GET", "/v1/things/7", 165'540).status, 200);
  Open(165'540);
  EXPECT_EQ(Ask("POST", "/v1/things/7/move", 165'540).status, 200) << "this user runs carmad";
}

}  // namespace
}  // namespace carma::daemon
