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

TEST(NoticeForms, EachServerGetsItsFormat) {
  EXPECT_EQ(For("json+https://h/x").body, R"({"task":7,"name":"a<b","reason":"","text":"…"})");
  EXPECT_EQ(For("slack+https://h/x").body, R"({"text":"Task 7 (a&lt;b) failed: \"x\""})");
  EXPECT_EQ(For("discord+https://h/x").body,
            R"({"allowed_mentions":{"parse":[]},"content":"Task 7 (a<b) failed: \"x\""})");
  const WebhookRequest ntfy = For("ntfy+https://h/lab");
  EXPECT_EQ(ntfy.body, "Task 7 (a<b) failed: \"x\"");
  EXPECT_THAT(ntfy.headers, ::testing::Contains("Tags: end"));
  EXPECT_EQ(For("matrix+https://h/hook").method, "POST");
}

TEST(NoticeForms, AMatrixRoomGetsARepeatedNoticeOnce) {
  const WebhookRequest request =
      For("https://m.org/_matrix/client/v3/rooms/!r:m.org/send/m.room.message?access_token=t");
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.url,
            "https://m.org/_matrix/client/v3/rooms/!r:m.org/send/m.room.message/carma-h-1"
            "?access_token=t");
  EXPECT_THAT(request.body, HasSubstr(R"("msgtype":"m.text")"));
}

TEST(NoticeForms, AMailsSubjectNamesTheEvent) {
  NoticeOrder order = Order("me");
  const std::string mail = MailOf(order, "ada", "gpu1", base::FromMs(0));
  EXPECT_THAT(mail, HasSubstr("To: ada\nSubject: Task 7 (a<b) failed: \"x\"\n"
                              "Date: Thu, 01 Jan 1970 00:00:00 +0000\n"));
  EXPECT_TRUE(mail.ends_with("\n\nTask 7 (a<b) failed: \"x\"\n\n"))
      << "facts without a value are omitted";
  order.message =
      R"({"ended_ms":1795394611139,"command":["python3","t.py"],"parameters":{"lr":"0.1"},)"
      R"("peak_mib":2048,"started_ms":null,"output":"/w/o"})";
  const std::string whole =
      MailOf(order, "ada", "gpu1", base::FromMs(0), "first\n10%\r100%\nValueError: no\n\n");
  EXPECT_THAT(whole,
              HasSubstr("Command:     python3 t.py\nParameters:  lr=0.1\nEnded:       2026-11-2"));
  EXPECT_THAT(whole,
              HasSubstr("Peak memory: 2.0G per GPU\nOutput:      /w/o\n\nThe last lines of its "
                        "output:\n  first\n  100%\n  ValueError: no\n"));
  EXPECT_EQ(OutputNamed(order), "/w/o");
  order.text = "Task 7 (train) on gpu1 failed after 1:00:00: exit code 1: " + std::string(200, 'x');
  EXPECT_THAT(
      MailOf(order, "ada", "gpu1", base::FromMs(0)),
      HasSubstr(
          "\nSubject: Task 7 (train) on gpu1 failed after 1:00:00: exit code 1: xxxxxxxxx...\n"))
      << "short enough to stay plain text";
  order.text = "Aufgabe räsnet\nBcc: eve@x";
  const std::string encoded = MailOf(order, "ada", "gpu1", base::FromMs(0));
  EXPECT_THAT(encoded, HasSubstr("Subject: =?UTF-8?B?QXVmZ2FiZSByw6RzbmV0P0JjYzogZXZlQHg=?=\n"));
  EXPECT_THAT(encoded, ::testing::Not(HasSubstr("\nBcc:")));
}

}  // namespace
}  // namespace carma::task
