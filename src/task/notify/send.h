// carma-notify: sends one notice with the rights of the user whose it is, and ends.
#pragma once

#include <string>

#include "task/notify/order.h"

namespace carma::task {

struct SendResult {
  int code = kNoticeSent;  // kNoticeSent, kNoticeAgain, kNoticeFailed
  std::string text;        // what went wrong, one line
};
// With the rights that the process has. Mail goes through order.sendmail, webhooks through curl (as
// which the system keeps its certificates and its proxies), programs are run without a shell.
SendResult Send(const NoticeOrder& order);

// Reads the order from standard input, gives up our rights for its user's (a webhook is never sent
// as root: as nobody in its place), sends, and says how that went. Returns the exit code.
int RunNotify();

}  // namespace carma::task
