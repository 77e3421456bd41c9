// The socket between `carma run` and its task's shim. carmad is not involved and may even restart
// while the two are connected. `carma run` listens under a name that appears only in the task's
// description. The shim connects once per attempt.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::task {

struct TerminalSize {
  int rows = 0;
  int columns = 0;
  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};

// One message in either direction; messages are never split or merged.
struct AttachMessage {
  enum class Kind : char {
    // To the shim:
    kHello = 'h',   // first message: the terminal size, or the input as a descriptor
    kInput = 'i',   // typed bytes
    kWindow = 'w',  // the terminal size has changed
    kSignal = 's',  // a signal for the task
    // From the shim:
    kOutput = 'o',
    kErrors = 'e',
    kEnded = 'q',    // the attempt has ended, and its output is complete
    kRefused = 'r',  // the attempt could not start
  };
  Kind kind{};
  std::string data;   // kInput, kOutput, kErrors: any bytes; kRefused: the reason
  TerminalSize size;  // kHello, kWindow
  int number = 0;     // kSignal: the signal; kEnded: the exit code
  int signal = 0;     // kEnded: the signal that killed the attempt; 0: it exited
  friend bool operator==(const AttachMessage&, const AttachMessage&) = default;
};
// Maximum bytes of data in one message.
inline constexpr std::size_t kMaxAttachBytes = 32'768;

std::string ToBytes(const AttachMessage& message);
// Parses untrusted bytes into a message. Accepts only signals that users may send to their tasks.
// Returns kInvalid for anything else.
Result<AttachMessage> ParseAttachMessage(std::string_view bytes);

// One end of a connection. No call blocks.
class AttachSocket {
 public:
  AttachSocket() = default;
  explicit AttachSocket(base::UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void Close() { fd_.reset(); }
  // Sends `message`, along with `descriptor` unless it is -1. Returns false if the peer is slow and
  // the caller must try again later. Returns an error if the peer is gone.
  Result<bool> Send(const AttachMessage& message, int descriptor = -1);
  struct Received {
    AttachMessage message;
    base::UniqueFd descriptor;  // sent with the message; may be empty
  };
  // Returns the next message, or nothing if none has arrived. Returns kNotFound if the peer is gone
  // and kInvalid if the data is not a message.
  Result<std::optional<Received>> Receive();

 private:
  base::UniqueFd fd_;
};

// The listening side, used by `carma run`.
class AttachListener {
 public:
  // Listens under a random name.
  static Result<AttachListener> Open();
  // The name for TaskSpec::attach.
  const std::string& name() const { return name_; }
  int fd() const { return fd_.get(); }
  // Accepts the next shim's connection, or returns nothing if none is waiting. Only peers that run
  // as our user or as root are accepted.
  std::optional<AttachSocket> Accept();

 private:
  std::string name_;
  base::UniqueFd fd_;
};

// Connects from the shim's side. Returns kNotFound if the listener is gone, kDenied if it does not
// belong to `owner`, and kUnavailable if too many connections are waiting.
Result<AttachSocket> ConnectAttach(const std::string& name, uid_t owner);

}  // namespace carma::task
