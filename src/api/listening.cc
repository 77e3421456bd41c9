// Opens listening sockets, and finds the user at the other end of a connection.
#include "api/listening.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/text.h"
#include "base/try.h"

namespace carma::api {
namespace {

base::UniqueFd NewSocket(int family) {
  return base::UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Number of checks before a socket counts as in use. If a daemon is killed while it starts a
// process, that process holds the daemon's socket open until it calls exec, so one check is not
// enough.
constexpr int kLooks = 20;
constexpr std::chrono::milliseconds kBetweenLooks{25};

Result<bool> IsListening(const sockaddr_un& address) {
  const base::UniqueFd probe = NewSocket(AF_UNIX);
  if (!probe) return FailErrno(errno, "socket");
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
         errno != ECONNREFUSED;
}

// Checks that the path is free, and removes a stale socket file of our own.
Result<Unit> ClearPath(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return Unit{};
    return FailErrno(errno, "socket " + path);
  }
  if (!S_ISSOCK(found.st_mode))
    return Conflict("socket " + path + ": the path exists but is not a socket");
  if (found.st_uid != ::geteuid())
    return Denied("socket {} belongs to UID {}, expected UID {}", path, found.st_uid, ::geteuid());
  for (int looks = 0; CARMA_TRY(IsListening(address)); ++looks) {
    if (looks == kLooks)
      return Conflict("socket " + path + ": another daemon is already listening on it");
    std::this_thread::sleep_for(kBetweenLooks);
  }
  if (::unlink(path.c_str()) != 0) return FailErrno(errno, "remove stale socket " + path);
  return Unit{};
}

struct End {
  sa_family_t family = AF_UNSPEC;
  std::array<std::uint32_t, 4> address{};
  std::uint16_t port = 0;  // in network order, as sock_diag expects
};

End EndOf(const sockaddr_storage& storage) {
  End end{.family = storage.ss_family};
  if (storage.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    end.address[0] = in.sin_addr.s_addr;
    end.port = in.sin_port;
  } else if (storage.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(storage);
    std::memcpy(end.address.data(), &in.sin6_addr, sizeof in.sin6_addr);
    end.port = in.sin6_port;
  }
  return end;
}

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 what{};
};

}  // namespace

Result<Listening> ListenOnPath(UnixPlace& place) {
  const std::string& path = place.path;
  const sockaddr_un address = CARMA_TRY(UnixAddress(path));
  CARMA_TRY(ClearPath(path, address));
  base::UniqueFd fd = NewSocket(AF_UNIX);
  if (!fd) return FailErrno(errno, "socket");
  // bind() creates the file with the socket's mode minus the umask. Setting the socket's mode first
  // ensures that the file is never too permissive. The chmod() below restores the bits that the
  // umask removed.
  if (::fchmod(fd.get(), place.mode) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailErrno(errno, "bind socket " + path);
  }
  if ((place.group && ::chown(path.c_str(), static_cast<uid_t>(-1), *place.group) != 0) ||
      ::chmod(path.c_str(), place.mode) != 0 || ::lstat(path.c_str(), &place.bound) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    return FailErrno(error, "listen on socket " + path);
  }
  return Listening{std::move(fd), AF_UNIX};
}

Result<Listening> ListenOnLoopback(int family, std::uint16_t& port) {
  Listening listening{NewSocket(family), family};
  const int fd = listening.fd.get();
  if (fd < 0 && errno == EAFNOSUPPORT)
    return NotFound("this machine does not support this address family");
  if (fd < 0) return FailErrno(errno, "socket");
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_in);
  storage.ss_family = static_cast<sa_family_t>(family);
  auto& four = reinterpret_cast<sockaddr_in&>(storage);
  auto& six = reinterpret_cast<sockaddr_in6&>(storage);
  if (family == AF_INET) {
    four.sin_port = htons(port);
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    size = sizeof(sockaddr_in6);
    six.sin6_port = htons(port);
    six.sin6_addr = in6addr_loopback;
  }
  if (::bind(fd, reinterpret_cast<sockaddr*>(&storage), size) != 0 ||
      ::listen(fd, SOMAXCONN) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    const std::string where = fmt::format("{}:{}", family == AF_INET ? "127.0.0.1" : "[::1]", port);
    if (errno == EADDRINUSE) return Conflict(where + ": the port is already in use");
    if (errno == EADDRNOTAVAIL) return NotFound("this machine has no address " + where);
    return FailErrno(errno, "listen on " + where);
  }
  port = ntohs(family == AF_INET ? four.sin_port : six.sin6_port);
  return listening;
}

std::optional<std::uint32_t> LoopbackOwner(int fd) {
  sockaddr_storage own{}, other{};
  socklen_t own_size = sizeof own, other_size = sizeof other;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_size) != 0)
    return std::nullopt;
  const base::UniqueFd kernel(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!kernel) return std::nullopt;
  const End there = EndOf(other), here = EndOf(own);
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.what.sdiag_family = static_cast<std::uint8_t>(there.family);
  question.what.sdiag_protocol = IPPROTO_TCP;
  question.what.idiag_states = ~0U;
  inet_diag_sockid& id = question.what.id;
  id.idiag_sport = there.port;
  id.idiag_dport = here.port;
  std::memcpy(id.idiag_src, there.address.data(), sizeof id.idiag_src);
  std::memcpy(id.idiag_dst, here.address.data(), sizeof id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(kernel.get(), &question, sizeof question, 0) != sizeof question) return std::nullopt;
  // The socket is non-blocking, but the kernel queues the reply before send() returns.
  alignas(nlmsghdr) std::array<char, 4096> buffer{};
  const ssize_t got = ::recv(kernel.get(), buffer.data(), buffer.size(), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data());
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) ||
      header->nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return std::nullopt;
  return static_cast<const inet_diag_msg*>(NLMSG_DATA(header))->idiag_uid;
}

Result<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Invalid("socket path '{}' must be 1 to {} bytes long", base::Printable(path),
                   sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace carma::api
