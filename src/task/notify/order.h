// The request to send one notice, which carmad passes to carma-notify as JSON on standard input.
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
  std::string target;  // text for ParseNotifyTarget
  std::string event;
  std::string text;     // one human-readable sentence
  std::string message;  // a JSON object for programs
  // Unique among this server's notices. It stays the same when the notice is sent again, so
  // receivers can recognise duplicates.
  std::string key;
  std::uint32_t uid = 0;  // the notice is sent with this user's privileges
  std::uint32_t gid = 0;
  std::string user;  // the user name at submission; empty: not checked
  // Additional environment variables, such as the proxies for webhooks.
  std::map<std::string, std::string> environment;
  std::string sendmail = "/usr/sbin/sendmail";
  base::Duration limit{30'000};  // time limit per attempt to send (real time)
  // Maximum number of the user's processes and threads, as for a task; 0 means no limit.
  std::int64_t max_processes = 0;

  static void VisitFields(auto& field, auto& order) {
    field("target", order.target, "", {.required = true});
    field("event", order.event);
    field("text", order.text);
    field("message", order.message);
    field("key", order.key);
    field("uid", order.uid, "", {.required = true});
    field("gid", order.gid, "", {.required = true});
    field("user", order.user);
    field("environment", order.environment);
    field("sendmail", order.sendmail);
    field("limit_s", order.limit);
    field("max_processes", order.max_processes, "", {.low = 0});
  }
  friend bool operator==(const NoticeOrder&, const NoticeOrder&) = default;
};

std::string ToText(const NoticeOrder& order);
// Returns kInvalid if the order is malformed.
Result<NoticeOrder> ParseNoticeOrder(std::string_view text);

// Exit codes of carma-notify, which prints a failure as one line on standard output.
inline constexpr int kNoticeSent = 0;
inline constexpr int kNoticeFailed = 69;  // sending again cannot help
inline constexpr int kNoticeAgain = 75;   // sending again may help

}  // namespace carma::task
