// The service manager's journal as the place of standard error.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"

namespace carma::base {

// stream: $JOURNAL_STREAM, "device:inode" of the stream that systemd gave the service. False where
// the descriptor was redirected since.
bool IsJournal(int fd, std::string_view stream);

// What a line on standard error begins with, so that the journal knows its priority (sd-daemon(3)):
// "<6>" for kInfo; empty where standard error is not the journal, as it is at the moment.
std::string_view PriorityPrefix(LogLevel level);

}  // namespace carma::base
