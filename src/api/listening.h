// Listens on local sockets and identifies the user at the other end of a connection.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::api {

// A listening socket and its address family.
struct Listening {
  base::UniqueFd fd;
  int family = AF_UNIX;
};

// Path and permissions of a Unix socket.
struct UnixPlace {
  std::string path;
  unsigned mode = 0600;
  std::optional<std::uint32_t> group;  // empty: our own group
  struct stat bound = {};              // the most recently created socket file
};

// Listens on the socket and sets `place.bound`. First removes a stale socket file of our own.
// Returns the same errors as Server::ListenUnix.
Result<Listening> ListenOnPath(UnixPlace& place);
// Listens on the loopback address of one family. If `port` is 0, the kernel picks a port, and
// `port` is set to its number.
Result<Listening> ListenOnLoopback(int family, std::uint16_t& port);

// Returns the user at the other end of an accepted local connection, according to the kernel's
// socket table; empty if the connection is gone or the user unknown. Use it for limits, not for
// access control: if a forwarder (ssh -L) made the connection, this is the forwarder's user.
std::optional<std::uint32_t> LoopbackOwner(int fd);

// The address of a Unix socket at a path. Returns kInvalid if the path is empty or longer than the
// system allows.
Result<sockaddr_un> UnixAddress(const std::string& path);

}  // namespace carma::api
