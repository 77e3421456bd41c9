// Formats a notice as a mail, or as a webhook request in the receiving server's format. All
// functions are pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "task/describe/notify.h"
#include "task/notify/order.h"

namespace carma::task {

struct WebhookRequest {
  std::string method;  // "POST", "PUT"
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  friend bool operator==(const WebhookRequest&, const WebhookRequest&) = default;
};
// target: must be a webhook.
WebhookRequest RequestOf(const NoticeOrder& order, const NotifyTarget& target);

// Headers and text for sendmail: the event and its reason, the command, times, and the last lines
// of the output. host: the sender's host. output: the end of the task's output, or empty.
std::string MailOf(const NoticeOrder& order, const std::string& address, const std::string& host,
                   base::Time now, std::string_view output = "");
// The path of the task's output file, taken from the message. Empty for several tasks, or if there
// is no file.
std::string OutputNamed(const NoticeOrder& order);

}  // namespace carma::task
