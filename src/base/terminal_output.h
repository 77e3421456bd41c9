// Writing to a terminal that may be lost.
#pragma once

namespace carma::base {

// A terminal that nobody reads (stopped with Ctrl-S, or behind a connection that broke without a
// word) makes its writers wait. From now on what it cannot take at once is refused (EAGAIN), so
// that a line is lost and nothing else. The terminal's other users go on as before. Nothing happens
// where the descriptor is no terminal, or one that this user may not open.
void NeverWaitForTerminal(int fd);

}  // namespace carma::base
