// Asks the kernel (sock_diag) for the owner of one socket.
#include "api/loopback_owner.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "base/unique_fd.h"

namespace carma::api {
namespace {

struct End {
  sa_family_t family = AF_UNSPEC;
  std::array<std::uint32_t, 4> address{};
  std::uint16_t port = 0;  // in network order, as sock_diag has it
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
  // The answer is available when send() returns.
  alignas(nlmsghdr) std::array<char, 4096> buffer{};
  const ssize_t got = ::recv(kernel.get(), buffer.data(), buffer.size(), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data());
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) ||
      header->nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return std::nullopt;
  return static_cast<const inet_diag_msg*>(NLMSG_DATA(header))->idiag_uid;
}

}  // namespace carma::api
