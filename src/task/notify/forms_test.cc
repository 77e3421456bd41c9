#include "task/notify/forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::task {
namespace {

using ::testing::HasSubstr;

NoticeOrder Order(const std::string& target) {
  return {.target = target,
          .event = "end",
          .text = "Task 7 (a<b) failed: \"x\"",
          .message = R"({"task":7,"name":"a<b","reason":"","text":"…"})",
          .key = "carma-h-1"};
}

WebhookRequest For(const std::string& target) {
  return RequestOf(Order(target), ParseNotifyTarget(target).value());
}

TEST(NoticeForms, EachServerGetsWhatItTakes) {
  EXPECT_EQ(For("json+https://h/x").body, R"({"task":7,"name":"a<b","reason":"","text":"…"})");
  EXPECT_EQ(For("slack+https://h/x").body, R"({"text":"Task 7 (a&lt;b) failed: \"x\""})");
  EXPECT_EQ(For("discord+https://h/x").body,
            R"({"allowed_mentions":{"parse":[]},"content":"Task 7 (a<b) failed: \"x\""})");
  const WebhookRequest ntfy = For("ntfy+https://h/lab");
  EXPECT_EQ(ntfy.body, "Task 7 (a<b) failed: \"x\"");
  EXPECT_THAT(ntfy.headers, ::testing::Contains("Tags: end"));
  EXPECT_EQ(For("matrix+https://h/hook").method, "POST");
}

TEST(NoticeForms, AMatrixRoomIsToldOnceHoweverOftenItIsSent) {
  const WebhookRequest request =
      For("https://m.org/_matrix/client/v3/rooms/!r:m.org/send/m.room.message?access_token=t");
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.url,
            "https://m.org/_matrix/client/v3/rooms/!r:m.org/send/m.room.message/carma-h-1"
            "?access_token=t");
  EXPECT_THAT(request.body, HasSubstr(R"("msgtype":"m.text")"));
}

TEST(NoticeForms, AMailSaysWhatHappenedInItsSubject) {
  NoticeOrder order = Order("me");
  const std::string mail = MailOf(order, "ada", "gpu1", base::FromMs(0));
  EXPECT_THAT(mail, HasSubstr("To: ada\nSubject: Task 7 (a<b) failed: \"x\"\n"
                              "Date: Thu, 01 Jan 1970 00:00:00 +0000\n"));
  EXPECT_THAT(mail, HasSubstr("\n\nTask 7 (a<b) failed: \"x\"\n\nname: a<b\ntask: 7\n"));
  order.message = R"({"ended_ms":1795394611139})";
  EXPECT_THAT(MailOf(order, "ada", "gpu1", base::FromMs(0)), HasSubstr("\nended: 2026-11-2"))
      << "people do not read milliseconds";
  order.text = "Aufgabe räsnet\nBcc: eve@x";
  const std::string encoded = MailOf(order, "ada", "gpu1", base::FromMs(0));
  EXPECT_THAT(encoded, HasSubstr("Subject: =?UTF-8?B?QXVmZ2FiZSByw6RzbmV0P0JjYzogZXZlQHg=?=\n"));
  EXPECT_THAT(encoded, ::testing::Not(HasSubstr("\nBcc:")));
}

}  // namespace
}  // namespace carma::task
