// Whose program is at the other end of a TCP connection within this machine.
#pragma once

#include <cstdint>
#include <optional>

namespace carma::api {

// The user that owns the other end of this accepted connection, as the kernel's table of sockets
// has it. Empty: the other end is gone, or the kernel does not tell. For counting, not for rights:
// a forwarder (ssh -L) is its own user's program.
std::optional<std::uint32_t> LoopbackOwner(int fd);

}  // namespace carma::api
