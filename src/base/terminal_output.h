// Writing to a terminal that may be lost.
#pragma once

namespace carma::base {

// A terminal that is not read (stopped with Ctrl-S, or behind a silently broken connection) blocks
// its writers. After this call, output that it cannot take at once is refused (EAGAIN), so only
// that line is lost. Other users of the terminal are not affected. Does nothing if the descriptor
// is not a terminal, or one that this user may not open.
void NeverWaitForTerminal(int fd);

}  // namespace carma::base
