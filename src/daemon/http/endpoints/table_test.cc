// Tests the table of all endpoints and the endpoints of the daemon itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "api/openapi.h"
#include "base/json.h"
#include "base/text.h"
#include "daemon/http/endpoints.h"
#include "daemon/http/endpoints/handlers.h"

namespace carma::daemon {
namespace {

using ::testing::IsSupersetOf;

ServerServices Server() {
  return {[] {
            api::StatusView view;
            view.version = "1.2.3";
            return view;
          },
          [] { return "carma_up 1\n"; }};
}

// Returns the path with every parameter name replaced by a placeholder.
std::string Nameless(const std::string& path) {
  static const std::regex kParameter(R"(\{[a-z]+\})");
  return std::regex_replace(path, kParameter, "{}");
}

std::set<std::string> Described() {
  std::set<std::string> described;
  const base::Json openapi = base::ParseJson(api::OpenApiJson()).value();
  for (const auto& [path, methods] : openapi.at("paths").items()) {
    for (const auto& [method, description] : methods.items())
      described.insert(base::ToLower(method) + " " + Nameless(path));
  }
  return described;
}

TEST(Endpoints, TheOpenApiDescriptionHasAllEndpoints) {
  std::set<std::string> rows;
  for (const Endpoint& endpoint : Endpoints(Server())) {
    if (!endpoint.path.ends_with("{verb}"))
      rows.insert(base::ToLower(endpoint.method) + " " + Nameless(std::string(endpoint.path)));
  }
  EXPECT_THAT(Described(), IsSupersetOf(rows));
}

TEST(Endpoints, TheStatusIsServedBeforeTheGpusAreKnown) {
  std::set<std::string_view> handled;
  for (const Endpoint& endpoint : Endpoints(Server())) {
    if (endpoint.handle) handled.insert(endpoint.path);
  }
  EXPECT_EQ(handled, (std::set<std::string_view>{"/", "/page/{id}", "/v1/overview", "/v1/status",
                                                 "/v1/openapi.json", "/metrics"}));
}

TEST(Endpoints, ChangesNeedAKnownUser) {
  // With a token, users may change existing tasks but not submit tasks, because new tasks would run
  // new programs.
  const std::set<std::string_view> by_token{"/v1/changes", "/v1/tasks/{id}/{verb}",
                                            "/v1/tasks/{id}/priority"};
  for (const Endpoint& endpoint : Endpoints(Server())) {
    if (endpoint.method == "GET") continue;
    EXPECT_EQ(endpoint.access, by_token.contains(endpoint.path) ? Access::kOwners : Access::kUsers)
        << endpoint.path;
  }
}

TEST(ServerEndpoints, ServeStatusMetricsAndDescription) {
  const Answer status = ShowStatus(Server(), {});
  EXPECT_EQ(base::ParseJson(status->body)->at("version"), "1.2.3");
  const Answer metrics = ShowMetrics(Server(), {});
  EXPECT_EQ(metrics->body, "carma_up 1\n");
  EXPECT_TRUE(metrics->content_type.starts_with("text/plain; version=0.0.4"));
  EXPECT_TRUE(base::ParseJson(ShowOpenApi(Server(), {})->body)->contains("openapi"));
}

}  // namespace
}  // namespace carma::daemon
