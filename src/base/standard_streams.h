// Prepares descriptors 0, 1 and 2 of a program: opens closed ones, never waits for a terminal, and
// detects the journal.
#pragma once

#include <string_view>

#include "base/log.h"

namespace carma::base {

// Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed, so that no file or socket
// gets one of them and receives printed text. Must be the first call of every main.
void OpenStandardStreams();

// Writing to a terminal that is not being read (stopped with Ctrl-S, or behind a silently broken
// connection) normally blocks. After this call, output that the terminal cannot take immediately is
// rejected (EAGAIN), so only that line is lost. Other users of the terminal are not affected. Does
// nothing if this is not a terminal, or if this user may not open it.
void NeverWaitForTerminal(int fd);

// stream: $JOURNAL_STREAM, the "device:inode" of the stream that systemd gave the service. Returns
// false if the descriptor has been redirected since then.
bool IsJournal(int fd, std::string_view stream);

// The prefix that gives a line on standard error its priority in the journal (sd-daemon(3)), such
// as "<6>" for kInfo. Empty if standard error is not connected to the journal.
std::string_view PriorityPrefix(LogLevel level);

}  // namespace carma::base
