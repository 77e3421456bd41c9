// The descriptors 0, 1 and 2 of a program: closed ones, a terminal that is not read, the journal.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"

namespace carma::base {

// Opens /dev/null for those of 0, 1 and 2 that are closed. Must be the first call of every main:
// otherwise the next file or socket gets such a number, and what is printed lands in it.
void OpenStandardStreams();

// A terminal that is not read (stopped with Ctrl-S, or behind a silently broken connection) blocks
// its writers. After this call, output that it cannot take at once is refused (EAGAIN), so only
// that line is lost. Other users of the terminal are not affected. Does nothing if the descriptor
// is not a terminal, or one that this user may not open.
void NeverWaitForTerminal(int fd);

// stream: $JOURNAL_STREAM, "device:inode" of the stream that systemd gave the service. False if the
// descriptor was redirected since.
bool IsJournal(int fd, std::string_view stream);

// Prefix of a line on standard error that gives the journal its priority (sd-daemon(3)): "<6>" for
// kInfo; empty if standard error is not the journal now.
std::string_view PriorityPrefix(LogLevel level);

}  // namespace carma::base
