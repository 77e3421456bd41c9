// Connects a user's terminal with a task: forwards typed input and shows the task's output.
#pragma once

#include <termios.h>

#include <chrono>
#include <csignal>
#include <initializer_list>
#include <optional>

#include "base/unique_fd.h"
#include "task/attach/attach_socket.h"

namespace carma::cli {

// While this object exists, every key goes to the task, without local line editing or signals. Does
// nothing if the descriptor is not a terminal. If this process is in the background at the end, the
// shell has already restored the terminal.
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

// While this object exists, these signals only make a descriptor readable. The default is SIGWINCH
// and the signals that would terminate or stop this process.
class CaughtSignals {
 public:
  explicit CaughtSignals(std::initializer_list<int> signals = {SIGHUP, SIGINT, SIGQUIT, SIGTERM,
                                                               SIGUSR1, SIGUSR2, SIGWINCH,
                                                               SIGTSTP});
  ~CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;
  int fd() const { return fd_.get(); }
  // Returns the next signal, or 0 if there is none. With `stops`, Ctrl-Z stops this process during
  // the call. Once the process continues, the call returns SIGWINCH, because the terminal may have
  // been resized in the meantime.
  int Take(bool stops = true);
  // Like Take(false), but waits up to `patience` for a signal.
  int Wait(std::chrono::milliseconds patience);
  // Stops this process as Ctrl-Z normally would. Does nothing if no shell could continue it.
  static void Stop();

 private:
  sigset_t before_{};
  base::UniqueFd fd_;
};

struct Streams {
  int in = 0;
  int out = 1;
  int err = 2;
  bool terminal = false;  // the task has its own terminal; otherwise it reads `in` itself
};

// How an attempt ended, as reported by its shim.
struct RelayEnd {
  std::optional<task::AttachMessage> last;  // kEnded or kRefused
  std::optional<base::Error> ours;          // why our own side of the connection is gone
  bool mid_line = false;                    // the last output did not end with a newline
};

// Greets the shim, then relays until the shim is gone. Signals are forwarded to the task. While
// this process is in the background, the task's output is shown, but no keys are read.
RelayEnd Relay(task::AttachSocket socket, const Streams& streams, CaughtSignals& signals);

}  // namespace carma::cli
