#include "daemon/loop/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace carma::daemon {

void NotifyServiceManager(const std::string& state) {
  const std::string path = base::GetEnv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path.size() < 2 || path.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // an abstract address
  const base::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  // Errors are ignored, because the daemon must run even if the service manager does not listen.
  (void)::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), length);
}

std::optional<std::chrono::microseconds> WatchdogPeriod() {
  const std::optional<std::int64_t> us = base::ParseInt(base::GetEnv("WATCHDOG_USEC"));
  if (!us || *us <= 0) return std::nullopt;
  return std::chrono::microseconds(*us / 2);
}

}  // namespace carma::daemon
