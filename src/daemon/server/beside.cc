#include "daemon/server/beside.h"

#include <unistd.h>

#include "api/other_daemon.h"
#include "config/client_socket.h"

namespace carma::daemon {

Result<Unit> CheckBesideServer(const config::Settings& settings) {
  if (::getuid() == 0 || !settings.simgpu_state.empty()) return Unit{};
  return api::CheckNoOtherDaemon(config::kServerSocket, "--beside");
}

}  // namespace carma::daemon
