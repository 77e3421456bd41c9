// The user at the other end of a TCP connection within this machine.
#pragma once

#include <cstdint>
#include <optional>

namespace carma::api {

// The owner of the other end of this accepted connection, from the kernel's table of sockets.
// Empty: the other end is gone, or unknown. For counting, not for rights: with a forwarder (ssh -L)
// it is the forwarder's user.
std::optional<std::uint32_t> LoopbackOwner(int fd);

}  // namespace carma::api
