// carma-notify: sends one notice with the rights of its user, and exits.
#pragma once

#include <string>

#include "task/notify/order.h"

namespace carma::task {

struct SendResult {
  int code = kNoticeSent;  // kNoticeSent, kNoticeAgain, kNoticeFailed
  std::string text;        // the failure, one line
};
// Sends with the rights of this process. Mail goes through order.sendmail, webhooks through curl
// (which uses the system's certificates and proxies), and programs are run without a shell.
SendResult Send(const NoticeOrder& order);

// Reads the order from standard input, switches to its user's rights, sends the notice, and reports
// the result. Root's webhooks are sent as nobody. Returns the exit code.
int RunNotify();

}  // namespace carma::task
