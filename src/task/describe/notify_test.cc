#include "task/describe/notify.h"

#include <gtest/gtest.h>

namespace carma::task {
namespace {

TEST(Notify, RecognisesTargetsByTheirForm) {
  using enum NotifyKind;
  using enum WebhookForm;
  const std::pair<const char*, NotifyTarget> cases[] = {
      {"me", {kMail, ""}},
      {"ada@lab.org", {kMail, "ada@lab.org"}},
      {"mail:ada", {kMail, "ada"}},
      {"https://example.org/hook", {kWebhook, "https://example.org/hook", kJson}},
      {"http://localhost:8080", {kWebhook, "http://localhost:8080", kJson}},
      {"https://hooks.slack.com/services/T/B/x",
       {kWebhook, "https://hooks.slack.com/services/T/B/x", kSlack}},
      {"https://discord.com/api/webhooks/1/x",
       {kWebhook, "https://discord.com/api/webhooks/1/x", kDiscord}},
      {"https://ntfy.sh/lab", {kWebhook, "https://ntfy.sh/lab", kNtfy}},
      {"https://m.org/_matrix/client/v3/rooms/!r:m.org/send/m.room.message?access_token=t",
       {kWebhook,
        "https://m.org/_matrix/client/v3/rooms/!r:m.org/send/m.room.message?access_token=t",
        kMatrix}},
      {"slack+https://chat.lab.org/hooks/x", {kWebhook, "https://chat.lab.org/hooks/x", kSlack}},
      {"/usr/local/bin/told", {kProgram, "/usr/local/bin/told"}},
  };
  for (const auto& [text, target] : cases) {
    const auto parsed = ParseNotifyTarget(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, target) << text;
  }
}

TEST(Notify, RefusesInvalidTargets) {
  for (const char* text :
       {"", "ada", "you", "told.sh", "./told", "ftp://x/y", "https://", "https:///x", "http://a b",
        "gopher+https://x", "-oQ/tmp@x", "a@b@c", "ada@lab.org\nBcc: x@y", "mail:", "mail:-f",
        "https://x/\"y", "mail:a b"}) {
    EXPECT_FALSE(ParseNotifyTarget(text)) << text;
  }
}

TEST(Notify, HidesSecretsInAUrl) {
  EXPECT_EQ(ShownTarget("https://hooks.slack.com/services/T/B/x"), "https://hooks.slack.com/…");
  EXPECT_EQ(ShownTarget("slack+https://u:pw@chat.lab.org:8443?token=1"),
            "https://chat.lab.org:8443/…");
  EXPECT_EQ(ShownTarget("http://localhost:8080"), "http://localhost:8080");
  EXPECT_EQ(ShownTarget("ada@lab.org"), "ada@lab.org");
}

TEST(Notify, ReadsEventsAfterTheLastColon) {
  const auto rule = ParseNotifyRule("me:fail,oom");
  ASSERT_TRUE(rule);
  EXPECT_EQ(*rule, (NotifyRule{.target = "me", .events = {"fail", "oom"}}));
  EXPECT_EQ(ParseNotifyRule("me")->events, std::vector<std::string>{"end"});
  EXPECT_EQ(ParseNotifyRule("http://h:80/x:start")->target, "http://h:80/x");
  EXPECT_EQ(ParseNotifyRule("http://h:80")->target, "http://h:80");
  EXPECT_EQ(ParseNotifyRule("./told:end")->target, "./told");
  EXPECT_FALSE(ParseNotifyRule("me:won"));
  EXPECT_EQ(ParseNotifyRule("a@b.org:fail,ende").error().message,
            "unknown event in 'fail,ende'; use one or more of start, end, fail, oom and requeue");
  for (const char* misspelt : {"https://hooks.example.org/T0/B0/xyz:fail,omm",
                               "https://ntfy.sh:omm", "slack+https://chat.lab.org/hooks/x:omm"}) {
    const auto refused = ParseNotifyRule(misspelt);
    ASSERT_FALSE(refused) << misspelt;
    EXPECT_TRUE(refused.error().message.starts_with("unknown event in '")) << misspelt;
  }
  EXPECT_EQ(ParseNotifyRule("https://h/x:y:end")->target, "https://h/x:y");
  EXPECT_EQ(ParseNotifyRule("https://h/!r:m.org/send")->target, "https://h/!r:m.org/send");
  EXPECT_NE(ParseNotifyRule("a@b@c:ende").error().message.find("an email address"),
            std::string::npos);
  EXPECT_TRUE(Wants(*rule, NotifyEvent::kFail));
  EXPECT_FALSE(Wants(*rule, NotifyEvent::kEnd));
  EXPECT_EQ(ShownRule(*rule), "me: fail, oom");
}

TEST(Notify, ReadsMailTypesOfSlurm) {
  const auto all = ParseMailTypes("ALL,ARRAY_TASKS");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->events, (std::vector<std::string>{"start", "end", "fail", "requeue"}));
  EXPECT_TRUE(all->each_task);
  EXPECT_EQ(ParseMailTypes("end,time_limit_90")->passed_over,
            std::vector<std::string>{"time_limit_90"});
  EXPECT_TRUE(ParseMailTypes("NONE")->events.empty());
  EXPECT_FALSE(ParseMailTypes("WON"));
}

}  // namespace
}  // namespace carma::task
