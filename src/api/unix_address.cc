#include "api/unix_address.h"

#include <sys/socket.h>

#include <cstring>

#include "base/text.h"

namespace carma::api {

base::Result<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return base::Fail(base::ErrorCode::kInvalid,
                      "socket path '" + base::Printable(path) + "': expected 1 to " +
                          std::to_string(sizeof address.sun_path - 1) + " bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace carma::api
