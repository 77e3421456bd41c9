#include "cli/run/relay.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <utility>

namespace carma::cli {
namespace {

using task::AttachMessage;
using task::AttachSocket;
using Kind = AttachMessage::Kind;

// A pipe that is ready for writing accepts this many bytes without blocking.
constexpr std::size_t kPortion = 4096;
constexpr int kForegroundLookMs = 300;

// True if this process is in the foreground of the terminal `fd`, or if `fd` is not its controlling
// terminal.
bool IsForeground(int fd) {
  const pid_t group = ::tcgetpgrp(fd);
  return group < 0 || group == ::getpgrp();
}

class Carrier {
 public:
  Carrier(AttachSocket socket, const Streams& streams, CaughtSignals& signals)
      : socket_(std::move(socket)), streams_(streams), signals_(signals) {}

  RelayEnd Run() {
    Greet();
    while (socket_ && !end_.ours) Turn();
    while (!shown_.empty() && !end_.ours) ShowRest();
    return std::move(end_);
  }

 private:
  void Greet() {
    const AttachMessage hello{.kind = Kind::kHello, .size = SizeOf(streams_.in)};
    if (!socket_.Send(hello, streams_.terminal ? -1 : streams_.in)) socket_.Close();
  }

  // Takes the terminal while this process is in the foreground, and returns true if keys can be
  // read. The kernel stops a background process that reads a terminal or changes its mode.
  bool HasTerminal() {
    if (!streams_.terminal) return false;
    const bool front = IsForeground(streams_.in);
    if (front && !raw_) {
      raw_.emplace(streams_.in);
      Send({.kind = Kind::kWindow, .size = SizeOf(streams_.in)});
    } else if (!front) {
      raw_.reset();
    }
    return front;
  }

  void Turn() {
    const bool front = HasTerminal();
    const bool typing = front && !unsent_ && !input_ended_;
    pollfd fds[] = {
        {signals_.fd(), POLLIN, 0},
        {shown_.empty() || unsent_ ? socket_.fd() : -1,
         static_cast<short>((shown_.empty() ? POLLIN : 0) | (unsent_ ? POLLOUT : 0)), 0},
        {typing ? streams_.in : -1, POLLIN, 0},
        {shown_.empty() ? -1 : shown_to_, POLLOUT, 0}};
    // The shell sends no signal when it brings a running process to the foreground.
    ::poll(fds, std::size(fds), streams_.terminal && !front ? kForegroundLookMs : -1);
    if (fds[0].revents != 0) PassSignals();
    if (fds[3].revents != 0) ShowPortion();
    if (fds[2].revents != 0 && !unsent_) ReadKeys();
    if (fds[1].revents != 0) {
      SendRest();
      if (shown_.empty()) Receive();
    }
  }

  void PassSignals() {
    while (const int number = signals_.Take()) {
      if (number != SIGWINCH) {
        Send({.kind = Kind::kSignal, .number = number});
      } else if (streams_.terminal) {
        Send({.kind = Kind::kWindow, .size = SizeOf(streams_.in)});
      }
    }
  }

  // If the socket is full, keeps the message for the next round. Signals that arrive until then are
  // lost, but the socket is full only after thousands of unread key presses.
  void Send(AttachMessage message) {
    if (unsent_ || !socket_) return;
    const Result<bool> sent = socket_.Send(message);
    // If sending fails, the task has ended. Receive() still gets its last output.
    if (sent && !*sent) unsent_ = std::move(message);
  }

  void SendRest() {
    if (!unsent_) return;
    AttachMessage message = std::move(*unsent_);
    unsent_.reset();
    Send(std::move(message));
  }

  void ReadKeys() {
    std::array<char, kPortion> keys;
    const ssize_t n = ::read(streams_.in, keys.data(), keys.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n < 0) return Leave(FailErrno(errno, "read input"));
    // A terminal that has hung up reports EIO here.
    if (n == 0 && ::isatty(streams_.in) == 0 && errno != EIO) {
      input_ended_ = true;
      // Sends Ctrl-D twice, because after an unfinished line the first one only submits the line.
      return Send({.kind = Kind::kInput, .data = "\x04\x04"});
    }
    if (n == 0) return Leave(Unavailable("the terminal is gone"));
    Send({.kind = Kind::kInput, .data = std::string(keys.data(), static_cast<std::size_t>(n))});
  }

  void Receive() {
    Result<std::optional<AttachSocket::Received>> heard = socket_.Receive();
    if (!heard && heard.error().code == ErrorCode::kInvalid) return;
    if (!heard) return socket_.Close();
    if (!*heard) return;
    AttachMessage& message = (*heard)->message;
    if (message.kind == Kind::kOutput || message.kind == Kind::kErrors) {
      shown_to_ = message.kind == Kind::kOutput ? streams_.out : streams_.err;
      shown_ = std::move(message.data);
    } else if (message.kind == Kind::kEnded || message.kind == Kind::kRefused) {
      end_.last = std::move(message);
      socket_.Close();
    }
  }

  void ShowPortion() {
    const ssize_t n = ::write(shown_to_, shown_.data(), std::min(shown_.size(), kPortion));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n < 0) return Leave(FailErrno(errno, "write output"));
    if (n > 0) end_.mid_line = shown_[static_cast<std::size_t>(n) - 1] != '\n';
    shown_.erase(0, static_cast<std::size_t>(n));
  }

  // Shows the rest of the output after the task has ended. Only a signal can interrupt this.
  void ShowRest() {
    pollfd fds[] = {{signals_.fd(), POLLIN, 0}, {shown_to_, POLLOUT, 0}};
    ::poll(fds, std::size(fds), -1);
    if (fds[0].revents != 0 && signals_.Take() != SIGWINCH)
      return Leave(Unavailable("interrupted"));
    if (fds[1].revents != 0) ShowPortion();
  }

  void Leave(std::unexpected<base::Error> why) {
    end_.ours = std::move(why).error();
    socket_.Close();
  }

  AttachSocket socket_;
  const Streams streams_;
  CaughtSignals& signals_;
  std::optional<RawTerminal> raw_;
  std::optional<AttachMessage> unsent_;
  bool input_ended_ = false;
  std::string shown_;  // output that is not written yet
  int shown_to_ = -1;
  RelayEnd end_;
};

}  // namespace

RawTerminal::RawTerminal(int fd) {
  if (::tcgetattr(fd, &before_) != 0) return;
  fd_ = fd;
  termios raw = before_;
  ::cfmakeraw(&raw);
  ::tcsetattr(fd_, TCSANOW, &raw);
}

RawTerminal::~RawTerminal() {
  if (fd_ >= 0 && IsForeground(fd_)) ::tcsetattr(fd_, TCSADRAIN, &before_);
}

task::TerminalSize SizeOf(int terminal_fd) {
  winsize size{};
  if (::ioctl(terminal_fd, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_row, size.ws_col};
}

CaughtSignals::CaughtSignals(std::initializer_list<int> signals) {
  sigset_t caught;
  ::sigemptyset(&caught);
  for (const int number : signals) ::sigaddset(&caught, number);
  ::pthread_sigmask(SIG_BLOCK, &caught, &before_);
  fd_.reset(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
}

CaughtSignals::~CaughtSignals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int CaughtSignals::Take(bool stops) {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return 0;
  const int number = static_cast<int>(info.ssi_signo);
  if (number != SIGTSTP || !stops) return number;
  Stop();
  return SIGWINCH;
}

int CaughtSignals::Wait(std::chrono::milliseconds patience) {
  pollfd ready{fd(), POLLIN, 0};
  ::poll(&ready, 1, static_cast<int>(patience.count()));
  return Take(false);
}

void CaughtSignals::Stop() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // the pending signal takes effect here
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

RelayEnd Relay(AttachSocket socket, const Streams& streams, CaughtSignals& signals) {
  return Carrier(std::move(socket), streams, signals).Run();
}

}  // namespace carma::cli
