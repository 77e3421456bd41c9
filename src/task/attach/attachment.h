// The shim's end of a task that runs in somebody's terminal (`carma run`): what the task gets as
// its streams, and what passes between it and the one who runs it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "task/attach/attach_socket.h"

namespace carma::task {

// All calls need the rights of the task's user. Only Open() and Finish() wait, and not for long.
class Attachment {
 public:
  // Finds the one who waits under that name and hears how large his terminal is, or takes over his
  // input. terminal: the task gets a terminal of its own. Errors: nobody is there, somebody else
  // is, the machine has no terminal left.
  static base::Result<Attachment> Open(const std::string& name, bool terminal, uid_t owner);

  // The task's input; for a terminal its output and errors too. Ours until the task has begun.
  int task_end() const { return task_end_.get(); }
  void CloseTaskEnd() { task_end_.reset(); }
  bool has_terminal() const { return static_cast<bool>(master_); }
  // What the task writes to its terminal; -1 if it has none.
  base::UniqueFd TerminalOutput() const;

  // What to wait for, beside the task's output: the socket, and the terminal while it is slow.
  int socket_fd() const { return socket_.fd(); }
  short socket_events() const;
  int terminal_fd() const { return typed_.empty() ? -1 : master_.get(); }

  // False: the person's side is slow, so that the task may wait with its output.
  bool Ready() const { return unsent_.empty(); }
  // Told at once or later, in this order; dropped once he is gone.
  void Tell(AttachMessage message);
  struct Asked {
    std::vector<int> signals;
    bool gone = false;  // he has gone just now
  };
  // Moves what can be moved, takes in what has come.
  Asked Handle();
  // Waits until he has taken all that was told; gives up when the span is over.
  void Finish(std::chrono::milliseconds patience);

 private:
  Attachment() = default;
  base::Result<base::Unit> OpenTerminal(TerminalSize size);
  void SetSize(TerminalSize size);
  void Flush();
  void Type();
  void TakeIn(AttachMessage message, Asked& asked);

  AttachSocket socket_;
  base::UniqueFd master_;  // of the terminal
  base::UniqueFd task_end_;
  std::deque<AttachMessage> unsent_;
  std::string typed_;  // and not yet taken by the terminal
};

}  // namespace carma::task
