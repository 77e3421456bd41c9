// Whether standard error goes to the service manager's journal.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"

namespace carma::base {

// stream: $JOURNAL_STREAM, "device:inode" of the stream that systemd gave the service. False if the
// descriptor was redirected since.
bool IsJournal(int fd, std::string_view stream);

// Prefix of a line on standard error that gives the journal its priority (sd-daemon(3)): "<6>" for
// kInfo; empty if standard error is not the journal now.
std::string_view PriorityPrefix(LogLevel level);

}  // namespace carma::base
