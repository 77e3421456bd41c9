// carmad: one loop on one thread owns all state; the GPU probe and the estimators run on workers
// that post values.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "config/settings.h"

namespace carma::daemon {

struct DaemonOptions {
  config::Settings settings;
  std::string shim_path;  // carma-shim
  std::string version;
};

class Daemon {
 public:
  // Takes the state folder and the socket. Errors: as store::Store::Open and
  // api::Server::ListenUnix.
  static base::Result<std::unique_ptr<Daemon>> Make(DaemonOptions options);
  virtual ~Daemon() = default;
  // Until SIGTERM or SIGINT. Running tasks go on without it.
  virtual void Run() = 0;
};

}  // namespace carma::daemon
