// Between a person's terminal and his task: what is typed goes there, what comes is shown.
#pragma once

#include <termios.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "task/attach/attach_socket.h"

namespace carma::cli {

// While it lives, every key is the task's: no line is edited here, no key makes a signal. A
// terminal that is none is left alone.
class RawTerminal {
 public:
  explicit RawTerminal(int fd);
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  int fd_ = -1;
  termios before_{};
};

task::TerminalSize SizeOf(int terminal_fd);

// While it lives, signals that would end us, and those of a terminal that changes its size, only
// make a descriptor readable.
class CaughtSignals {
 public:
  CaughtSignals();
  ~CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;
  int fd() const { return fd_.get(); }
  // The next one; 0: none.
  int Take();

 private:
  sigset_t before_{};
  base::UniqueFd fd_;
};

struct Streams {
  int in = 0;
  int out = 1;
  int err = 2;
  bool terminal = false;  // the task has one of its own; else it reads `in` by itself
};

// How an attempt ended, as far as its shim told before it was gone.
struct RelayEnd {
  std::optional<task::AttachMessage> last;  // kEnded or kRefused
  bool ours = false;                        // our own side is gone: nobody reads or types any more
  bool mid_line = false;                    // what was shown last did not end its line
};

// Greets the shim, then carries until it is gone. Signals are passed on to the task.
RelayEnd Relay(task::AttachSocket socket, const Streams& streams, CaughtSignals& signals);

}  // namespace carma::cli
