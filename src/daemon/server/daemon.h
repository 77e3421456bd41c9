// carmad: one loop on one thread owns all state; the GPU probe and the estimators run on workers
// that post values.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/settings.h"

namespace carma::daemon {

struct DaemonOptions {
  config::Loaded configuration;
  // Where it is read again; called on another thread.
  std::function<config::Sources()> sources;
  std::string shim_path;    // carma-shim
  std::string notify_path;  // carma-notify
  std::string reader_path;  // carma-reader
  std::string version;
  // Called on the loop with each SIGHUP: the file of the log may have been moved away. Empty: none.
  std::function<void()> reopen_log = nullptr;
  // Called on the loop once everything that is asked over the socket is answered: the GPUs are
  // known, or it is known that there are none; after some seconds at the latest. Empty: nobody
  // asks.
  std::function<void()> serving = nullptr;
};

class Daemon {
 public:
  // Takes the state folder and the socket. Errors: as store::Store::Open and
  // api::Server::ListenUnix.
  static base::Result<std::unique_ptr<Daemon>> Make(DaemonOptions options);
  virtual ~Daemon() = default;
  // Until SIGTERM or SIGINT. Running tasks go on without it. SIGHUP, also that of a terminal that
  // is closed: reads the configuration again.
  virtual void Run() = 0;
};

}  // namespace carma::daemon
