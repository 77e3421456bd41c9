// The shim's side of a task that runs in a user's terminal (`carma run`). Handles the task's
// streams and the messages between the task and the client.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "task/attach/attach_socket.h"

namespace carma::task {

// All calls must be made with the privileges of the task's user. Only Open() and Finish() block,
// and only briefly.
class Attachment {
 public:
  // Connects to the client that listens under this name, and receives its terminal size or its
  // input. terminal: give the task its own terminal. Fails if there is no client, if the client
  // belongs to another user, or if the machine has no free terminal.
  static Result<Attachment> Open(const std::string& name, bool terminal, uid_t owner);

  // The task's stdin; with a terminal, also its stdout and stderr.
  int task_end() const { return task_end_.get(); }
  // Call this once the task has started. Keeps a terminal open: while no process has it open,
  // reading its output fails, and the task may close it and open it again.
  void CloseTaskEnd() {
    if (!has_terminal()) task_end_.reset();
  }
  bool has_terminal() const { return static_cast<bool>(master_); }
  // A duplicate of the terminal's descriptor, for reading the task's output. Empty if there is no
  // terminal.
  base::UniqueFd TerminalOutput() const;

  // Descriptors to poll in addition to the task's output: the socket, and the terminal while typed
  // input is pending.
  int socket_fd() const { return socket_.fd(); }
  short socket_events() const;
  int terminal_fd() const { return typed_.empty() ? -1 : master_.get(); }

  // False while the client cannot keep up. In that case, do not read the task's output.
  bool Ready() const { return unsent_.empty(); }
  // Sends or queues the message, preserving order. Drops it if the client is gone.
  void Tell(AttachMessage message);
  struct Asked {
    std::vector<int> signals;
    bool gone = false;  // the client has gone since the last call
  };
  // Sends and receives as much as possible without blocking.
  Asked Handle();
  // Waits up to `patience` for the client to receive everything.
  void Finish(std::chrono::milliseconds patience);

 private:
  Attachment() = default;
  Result<Unit> OpenTerminal(TerminalSize size);
  void SetSize(TerminalSize size);
  void Flush();
  void Type();
  void TakeIn(AttachMessage message, Asked& asked);

  AttachSocket socket_;
  base::UniqueFd master_;  // the shim's end of the terminal
  base::UniqueFd task_end_;
  std::deque<AttachMessage> unsent_;
  std::string typed_;  // typed bytes that the terminal has not accepted yet
};

}  // namespace carma::task
