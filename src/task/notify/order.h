// What carmad tells a carma-notify that it starts: one notice, as JSON on its standard input.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/result.h"
#include "base/time.h"

namespace carma::task {

struct NoticeOrder {
  std::string target;  // as ParseNotifyTarget takes it
  std::string event;
  std::string text;     // one sentence, for people
  std::string message;  // a JSON object, for programs
  // No other notice of this server's has it, and it stays when the notice is sent again: who is
  // told may know by it what he has been told already.
  std::string key;
  std::uint32_t uid = 0;  // whose rights it is sent with
  std::uint32_t gid = 0;
  std::map<std::string, std::string> environment;  // of what is run: proxies for webhooks
  std::string sendmail = "/usr/sbin/sendmail";
  base::Duration limit{30'000};  // real time, of one try
  // Processes and threads of its user at once, as a task's; 0: no limit.
  std::int64_t max_processes = 0;

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& order) {
    field("target", order.target, "", {.required = true});
    field("event", order.event);
    field("text", order.text);
    field("message", order.message);
    field("key", order.key);
    field("uid", order.uid, "", {.required = true});
    field("gid", order.gid, "", {.required = true});
    field("environment", order.environment);
    field("sendmail", order.sendmail);
    field("limit_s", order.limit);
    field("max_processes", order.max_processes, "", {.low = 0});
  }
  friend bool operator==(const NoticeOrder&, const NoticeOrder&) = default;
};

std::string ToText(const NoticeOrder& order);
// Errors: kInvalid.
base::Result<NoticeOrder> ParseNoticeOrder(std::string_view text);

// How a carma-notify ends; what went wrong stands in one line on its standard output.
inline constexpr int kNoticeSent = 0;
inline constexpr int kNoticeFailed = 69;  // for good
inline constexpr int kNoticeAgain = 75;   // another try may help

}  // namespace carma::task
