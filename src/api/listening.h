// Sockets of this machine: listening on them, their addresses, and the user at the other end.
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

// A socket that listens, and its family.
struct Listening {
  base::UniqueFd fd;
  int family = AF_UNIX;
};

// Path and permissions of a Unix socket.
struct UnixPlace {
  std::string path;
  unsigned mode = 0600;
  std::optional<std::uint32_t> group;  // if not our own
  struct stat bound = {};              // the file that was made last
};

// Listens on the socket and sets `place.bound`; a dead socket of our own is removed first. Errors:
// those of Server::ListenUnix.
Result<Listening> ListenOnPath(UnixPlace& place);
// Listens on the loopback address of one family. port: 0 for any; set to the actual one.
Result<Listening> ListenOnLoopback(int family, std::uint16_t& port);

// The user at the other end of this accepted connection within this machine, from the kernel's
// table of sockets. Empty: the other end is gone, or unknown. For counting, not for rights: with a
// forwarder (ssh -L) it is the forwarder's user.
std::optional<std::uint32_t> LoopbackOwner(int fd);

// The address of a Unix socket by path. Errors: kInvalid: empty, or longer than the system can
// name.
Result<sockaddr_un> UnixAddress(const std::string& path);

}  // namespace carma::api
