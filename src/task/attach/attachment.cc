#include "task/attach/attachment.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/try.h"

namespace carma::task {
namespace {

using base::UniqueFd;

using Kind = AttachMessage::Kind;
using SteadyClock = std::chrono::steady_clock;

// How long to wait for a connection to the client, and then for its first message.
constexpr std::chrono::milliseconds kHelloPatience{10'000};

// Returns false if the descriptor was not ready before the deadline.
bool WaitFor(int fd, short events, SteadyClock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
    if (left.count() <= 0) return false;
    pollfd wait{fd, events, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

Result<AttachSocket::Received> HearHello(AttachSocket& socket) {
  const auto deadline = SteadyClock::now() + kHelloPatience;
  while (WaitFor(socket.fd(), POLLIN, deadline)) {
    std::optional<AttachSocket::Received> heard = CARMA_TRY(socket.Receive());
    if (heard && heard->message.kind == Kind::kHello) return std::move(*heard);
    if (heard) return Invalid("terminal socket: the first message is not a greeting");
  }
  return Unavailable("the 'carma run' waiting for the task does not respond");
}

// Retries for a while, because other users' connections may fill the listener's queue until the
// listener has rejected them.
Result<AttachSocket> Reach(const std::string& name, uid_t owner) {
  constexpr int kPauseMs = 20;
  const auto deadline = SteadyClock::now() + kHelloPatience;
  while (true) {
    Result<AttachSocket> socket = ConnectAttach(name, owner);
    const bool full = !socket && socket.error().code == ErrorCode::kUnavailable;
    if (!full || SteadyClock::now() >= deadline) return socket;
    ::poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace

Result<Attachment> Attachment::Open(const std::string& name, bool terminal, uid_t owner) {
  AttachSocket socket = CARMA_TRY(Reach(name, owner));
  AttachSocket::Received hello = CARMA_TRY(HearHello(socket));
  Attachment attachment;
  attachment.socket_ = std::move(socket);
  if (terminal) {
    CARMA_TRY(attachment.OpenTerminal(hello.message.size));
  } else if (hello.descriptor) {
    attachment.task_end_ = std::move(hello.descriptor);
  } else {
    return Invalid("terminal socket: the greeting does not contain the task's input");
  }
  return attachment;
}

Result<Unit> Attachment::OpenTerminal(TerminalSize size) {
  master_.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  char path[128];
  if (!master_ || ::grantpt(master_.get()) != 0 || ::unlockpt(master_.get()) != 0 ||
      ::ptsname_r(master_.get(), path, sizeof path) != 0)
    return FailErrno(errno, "cannot create a terminal");
  SetSize(size);
  task_end_.reset(::open(path, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!task_end_) return FailErrno(errno, path);
  return Unit{};
}

UniqueFd Attachment::TerminalOutput() const {
  return UniqueFd(master_ ? ::fcntl(master_.get(), F_DUPFD_CLOEXEC, 0) : -1);
}

void Attachment::SetSize(TerminalSize size) {
  winsize wanted{};
  wanted.ws_row = static_cast<unsigned short>(size.rows);
  wanted.ws_col = static_cast<unsigned short>(size.columns);
  if (master_ && size.rows > 0 && size.columns > 0) ::ioctl(master_.get(), TIOCSWINSZ, &wanted);
}

short Attachment::socket_events() const {
  // While the terminal has not accepted earlier input, reading more would only fill the buffer.
  // poll() reports a hang-up even without POLLIN.
  const int input = typed_.empty() ? POLLIN : 0;
  return static_cast<short>(input | (unsent_.empty() ? 0 : POLLOUT));
}

void Attachment::Tell(AttachMessage message) {
  if (!socket_) return;
  unsent_.push_back(std::move(message));
  Flush();
}

void Attachment::Flush() {
  while (socket_ && !unsent_.empty()) {
    const Result<bool> sent = socket_.Send(unsent_.front());
    if (sent && !*sent) return;
    // The next call to Handle() notices that the client is gone.
    if (!sent) return unsent_.clear();
    unsent_.pop_front();
  }
}

void Attachment::Type() {
  if (typed_.empty()) return;
  const ssize_t n = ::write(master_.get(), typed_.data(), typed_.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // After any other error, typed bytes are dropped.
  typed_.erase(0, n < 0 ? typed_.size() : static_cast<std::size_t>(n));
}

void Attachment::TakeIn(AttachMessage message, Asked& asked) {
  switch (message.kind) {
    case Kind::kInput:
      if (master_) typed_ += message.data;
      return Type();
    case Kind::kWindow:
      return SetSize(message.size);
    case Kind::kSignal:
      return asked.signals.push_back(message.number);
    default:
      return;  // not a message that a client may send
  }
}

Attachment::Asked Attachment::Handle() {
  Asked asked;
  Flush();
  Type();
  while (socket_ && typed_.empty()) {
    Result<std::optional<AttachSocket::Received>> heard = socket_.Receive();
    if (heard && !*heard) break;
    if (heard) {
      TakeIn(std::move((*heard)->message), asked);
    } else if (heard.error().code != ErrorCode::kInvalid) {
      asked.gone = true;
      socket_.Close();
      unsent_.clear();
    }
  }
  // While typed input is pending, the socket is not read, so a hang-up must be detected here;
  // otherwise poll() would return immediately every time.
  pollfd hangup{socket_.fd(), 0, 0};
  if (socket_ && !typed_.empty() && ::poll(&hangup, 1, 0) == 1 &&
      (hangup.revents & (POLLHUP | POLLERR)) != 0) {
    asked.gone = true;
    socket_.Close();
    unsent_.clear();
    typed_.clear();
  }
  return asked;
}

void Attachment::Finish(std::chrono::milliseconds patience) {
  const auto deadline = SteadyClock::now() + patience;
  while (socket_ && !unsent_.empty() && WaitFor(socket_.fd(), POLLOUT, deadline)) {
    pollfd state{socket_.fd(), POLLOUT, 0};
    ::poll(&state, 1, 0);
    if ((state.revents & (POLLHUP | POLLERR)) != 0) break;
    Flush();
  }
  unsent_.clear();
}

}  // namespace carma::task
