// The daemon carmad. One loop on one thread owns all state. The GPU probe and the estimators run on
// workers, which post their results to the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/settings.h"

namespace carma::daemon {

struct DaemonOptions {
  config::Loaded configuration;
  // Returns the files, variables and flags from which to reload the configuration. Called on
  // another thread.
  std::function<config::Sources()> sources;
  std::string shim_path;    // carma-shim
  std::string notify_path;  // carma-notify
  std::string reader_path;  // carma-reader
  std::string version;
  std::string config_file = {};  // absolute path, given as --config; empty for the usual files
  // Called on the loop: with true on each SIGHUP, because the log file may have been renamed, and
  // every few seconds with false, because it may have become large. May be empty.
  std::function<void(bool reopen)> tend_log = nullptr;
  // Called on the loop once carmad knows its GPUs, or knows that there are none, or after a few
  // seconds if the search takes longer. May be empty.
  std::function<void()> serving = nullptr;
};

class Daemon {
 public:
  // Opens the state folder and the socket. Returns the errors of store::Store::Open and
  // api::Server::ListenUnix.
  static Result<std::unique_ptr<Daemon>> Make(DaemonOptions options);
  virtual ~Daemon() = default;
  // Runs until SIGTERM or SIGINT. Running tasks continue without the daemon. SIGHUP reloads the
  // configuration, even if it was sent because a terminal was closed. Returns an error if the tasks
  // in the database could not be taken over.
  virtual Result<Unit> Run() = 0;
};

}  // namespace carma::daemon
