#include "task/attach/attach_socket.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/text.h"
#include "base/try.h"

namespace carma::task {
namespace {

using base::UniqueFd;

using Kind = AttachMessage::Kind;

constexpr std::size_t kNameBytes = 16;
constexpr int kMostRows = 65'535;  // limit of struct winsize
constexpr std::array kSignals = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

struct Address {
  sockaddr_un address{};
  socklen_t length = 0;
};

// The address of an abstract socket, which needs no folder that both sides can access and
// disappears with its listener.
Address AddressOf(std::string_view name) {
  Address made;
  made.address.sun_family = AF_UNIX;
  const std::string path = "carma-run-" + std::string(name);
  std::memcpy(made.address.sun_path + 1, path.data(), path.size());
  made.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  return made;
}

Result<uid_t> PeerOf(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return FailErrno(errno, "reading the terminal socket's peer credentials");
  return peer.uid;
}

UniqueFd NewSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Parses exactly kCount numbers from 0 to `most`, such as "24 80".
template <std::size_t kCount>
std::optional<std::array<int, kCount>> Numbers(std::string_view text, int most) {
  const auto words = base::Split(text, ' ');
  if (words.size() != kCount) return std::nullopt;
  std::array<int, kCount> numbers{};
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto number = base::ParseInt(words[i]);
    if (!number || *number < 0 || *number > most) return std::nullopt;
    numbers[i] = static_cast<int>(*number);
  }
  return numbers;
}

bool Take(std::string_view text, AttachMessage& message) {
  switch (message.kind) {
    case Kind::kHello:
    case Kind::kWindow: {
      const auto size = Numbers<2>(text, kMostRows);
      if (size) message.size = {(*size)[0], (*size)[1]};
      return size.has_value();
    }
    case Kind::kSignal: {
      const auto signal = Numbers<1>(text, NSIG - 1);
      if (signal) message.number = (*signal)[0];
      return signal && std::ranges::find(kSignals, message.number) != kSignals.end();
    }
    case Kind::kEnded: {
      const auto end = Numbers<2>(text, 255);
      if (end) std::tie(message.number, message.signal) = std::tie((*end)[0], (*end)[1]);
      return end.has_value();
    }
    case Kind::kInput:
    case Kind::kOutput:
    case Kind::kErrors:
    case Kind::kRefused:
      message.data = text;
      return true;
  }
  return false;
}

// Returns the descriptor sent with the message. The buffer has room for one; the kernel closes any
// others.
UniqueFd DescriptorOf(msghdr& header) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    return UniqueFd(fd);
  }
  return UniqueFd();
}

}  // namespace

std::string ToBytes(const AttachMessage& message) {
  std::string bytes(1, static_cast<char>(message.kind));
  switch (message.kind) {
    case Kind::kHello:
    case Kind::kWindow:
      return bytes + fmt::format("{} {}", message.size.rows, message.size.columns);
    case Kind::kSignal:
      return bytes + fmt::format("{}", message.number);
    case Kind::kEnded:
      return bytes + fmt::format("{} {}", message.number, message.signal);
    case Kind::kInput:
    case Kind::kOutput:
    case Kind::kErrors:
    case Kind::kRefused:
      return bytes + message.data;
  }
  return bytes;
}

Result<AttachMessage> ParseAttachMessage(std::string_view bytes) {
  AttachMessage message;
  if (!bytes.empty()) message.kind = static_cast<Kind>(bytes.front());
  if (bytes.empty() || bytes.size() > kMaxAttachBytes + 1 || !Take(bytes.substr(1), message))
    return Invalid("terminal socket: received an invalid message");
  return message;
}

Result<bool> AttachSocket::Send(const AttachMessage& message, int descriptor) {
  std::string bytes = ToBytes(message);
  iovec data{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  }
  while (::sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) return false;
    return FailErrno(errno, "terminal socket");
  }
  return true;
}

Result<std::optional<AttachSocket::Received>> AttachSocket::Receive() {
  std::array<char, kMaxAttachBytes + 2> bytes;
  iovec data{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n;
  // If the peer closes its end without having read everything, the kernel reports ECONNRESET once.
  // The calls after that return the peer's last messages, and finally the end of the connection.
  do {
    n = ::recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
  if (n < 0 && errno == EAGAIN) return std::nullopt;
  if (n < 0) return FailErrno(errno, "terminal socket");
  if (n == 0) return NotFound("terminal socket: the peer has disconnected");
  Received received;
  received.descriptor = DescriptorOf(header);
  received.message = CARMA_TRY(ParseAttachMessage({bytes.data(), static_cast<std::size_t>(n)}));
  return received;
}

// Any user can connect to the socket, so its queue is as long as the kernel allows and hard to
// fill.
Result<AttachListener> AttachListener::Open() {
  std::array<unsigned char, kNameBytes> chance{};
  if (::getrandom(chance.data(), chance.size(), 0) != static_cast<ssize_t>(chance.size()))
    return FailErrno(errno, "getrandom");
  AttachListener listener;
  for (const unsigned char byte : chance) listener.name_ += fmt::format("{:02x}", byte);
  listener.fd_ = NewSocket();
  const Address at = AddressOf(listener.name_);
  if (!listener.fd_ ||
      ::bind(listener.fd_.get(), reinterpret_cast<const sockaddr*>(&at.address), at.length) != 0 ||
      ::listen(listener.fd_.get(), SOMAXCONN) != 0)
    return FailErrno(errno, "creating the task's terminal socket");
  return listener;
}

std::optional<AttachSocket> AttachListener::Accept() {
  while (true) {
    UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return std::nullopt;
    const Result<uid_t> peer = PeerOf(fd.get());
    if (peer && (*peer == ::geteuid() || *peer == 0)) return AttachSocket(std::move(fd));
  }
}

Result<AttachSocket> ConnectAttach(const std::string& name, uid_t owner) {
  UniqueFd fd = NewSocket();
  if (!fd) return FailErrno(errno, "creating the task's terminal socket");
  const Address at = AddressOf(name);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.length) != 0) {
    if (errno == ECONNREFUSED) return NotFound("the 'carma run' waiting for the task is gone");
    return FailErrno(errno, "connecting to the task's terminal");
  }
  const uid_t peer = CARMA_TRY(PeerOf(fd.get()));
  if (peer != owner)
    return Denied("the task's terminal belongs to user {}, not to user {}", peer, owner);
  return AttachSocket(std::move(fd));
}

}  // namespace carma::task
