#include "api/unix_address.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cstring>

#include "base/text.h"

namespace carma::api {

base::Result<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return base::Fail(base::ErrorCode::kInvalid,
                      fmt::format("socket path '{}': expected 1 to {} bytes", base::Printable(path),
                                  sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace carma::api
