// The program carma-notify, which sends one notice with the user's privileges and exits.
#pragma once

#include <string>

#include "task/notify/order.h"

namespace carma::task {

struct SendResult {
  int code = kNoticeSent;  // kNoticeSent, kNoticeAgain, kNoticeFailed
  std::string text;        // the failure, one line
};
// Sends the notice with this process's privileges: mail through order.sendmail, webhooks through
// curl (which uses the system's certificates and proxies), programs without a shell.
SendResult Send(const NoticeOrder& order);

// Reads a NoticeOrder from standard input, switches to its user, sends the notice, and reports the
// result. Root's webhooks are sent as nobody. Returns the exit code.
int RunNotify();

}  // namespace carma::task
