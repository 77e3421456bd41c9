#include "core/values/entitlement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/policy/policy.h"

namespace carma::core {
namespace {

using testing::HasSubstr;

template <class T>
std::string Again(Result<T> (*parse)(std::string_view), std::string_view text) {
  const Result<T> read = parse(text);
  return read ? TextOf(*read) : "no: " + read.error().message;
}

TEST(Entitlement, TextsParseBackToEqualValues) {
  for (const char* text :
       {"normal", "interactive priority=1000", "later priority=-5", "urgent priority=1 preempts",
        "spare preemptible", "both priority=2 preempts preemptible"})
    EXPECT_EQ(Again(&ParseQosClass, text), text);
  for (const char* text : {"vision: ada bob", "course: *"})
    EXPECT_EQ(Again(&ParseAccountRule, text), text);
  for (const char* text : {"ada=2", "@vision=0.5", "ada@example.org=2"})
    EXPECT_EQ(Again(&ParseShareWeight, text), text);
  for (const char* text :
       {"user=* running=4",
        "account=vision qos=background gpus=2 memory=80G cpus=32 host_memory=256G queued=100",
        "gpu_hours=200/7d length=12h", "user=ada length=90s", "running=0"})
    EXPECT_EQ(Again(&ParseLimitRule, text), text);
}

TEST(Entitlement, ErrorsNameTheExpectedForm) {
  for (const char* text : {"", "two words", "a priority=x", "a priority=1 more", "bad,name",
                           "a preempts preempts", "a priority=1 priority=2"})
    EXPECT_THAT(Again(&ParseQosClass, text), HasSubstr("no: expected a class")) << text;
  for (const char* text : {"", "vision", "vision:", "two words: ada", "vision: a=b"})
    EXPECT_THAT(Again(&ParseAccountRule, text), HasSubstr("no: expected an account")) << text;
  for (const char* text :
       {"", "ada", "@@vision=2", "ada=0", "ada=-1", "=2", "@=2", "*=2", "ada=many"})
    EXPECT_THAT(Again(&ParseShareWeight, text), HasSubstr("no: expected a weight")) << text;
  for (const char* text : {"", "user=ada", "colour=red running=1"})
    EXPECT_THAT(Again(&ParseLimitRule, text), HasSubstr("no: expected words")) << text;
  for (const auto& [text, expected] :
       {std::pair("running=-1", "a number like running=4, got 'running=-1'"),
        std::pair("user=* running", "a number like running=4, got 'running'"),
        std::pair("gpu_hours=5", "hours per time span, like gpu_hours=200/7d, got 'gpu_hours=5'"),
        std::pair("gpu_hours=5/7", "hours per time span, like"),
        std::pair("user=* length=5", "a time span with a unit, like length=12h, got 'length=5'"),
        std::pair("user=a user=b running=1", "one user in a rule, got 'user=a user=b running=1'"),
        std::pair("user=ada running=1 running=5", "one running in a rule, got 'user=ada running="),
        std::pair("running=1 gpu_hours=5/7d gpu_hours=5/7d", "one gpu_hours in a rule"),
        std::pair("memory=lots", "a size like memory=80G, got 'memory=lots'")})
    EXPECT_THAT(Again(&ParseLimitRule, text), HasSubstr(expected)) << text;
}

TEST(Entitlement, DescribesTheTasksOfARule) {
  EXPECT_EQ(WhomOf(*ParseLimitRule("user=* qos=interactive running=1")),
            "each user, class interactive");
  EXPECT_EQ(WhomOf(*ParseLimitRule("running=1")), "everybody together");
}

TEST(Entitlement, RefusesUnknownAccountsAndClasses) {
  PolicyConfig config;
  config.accounts = {{"vision", {"ada"}}, {"course", {"*"}}};
  TaskRequest request{.uid = 7, .user = "bob"};
  EXPECT_TRUE(MayName(config, request));
  request.account = "course";
  EXPECT_TRUE(MayName(config, request));
  request.account = "vision";
  const auto refused = MayName(config, request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("expected course"));
  request.user = "ada";
  EXPECT_TRUE(MayName(config, request));
  request.qos = "urgent";
  EXPECT_THAT(MayName(config, request).error().message, HasSubstr("normal, interactive"));
  request.qos = "background";
  request.priority = 3;
  EXPECT_EQ(PriorityOf(config, request), -997);
}

}  // namespace
}  // namespace carma::core
