// The node daemon.
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/journal.h"
#include "base/log.h"
#include "base/text.h"
#include "config/settings.h"
#include "daemon/daemon.h"

namespace {

// One line, whatever the message quotes.
int Refuse(const carma::base::Error& error, int exit_code) {
  const std::string prefix(carma::base::PriorityPrefix(carma::base::LogLevel::kError));
  std::fprintf(stderr, "%scarmad: %s\n", prefix.c_str(),
               carma::base::Printable(error.message, 4096).c_str());
  return exit_code;
}

int Run(int argc, char** argv) {
  CLI::App app{"carmad, the CARMA node daemon: queue, placement, launch and recovery of GPU tasks"};
  app.set_version_flag("--version", CARMA_VERSION);
  std::string config, socket, state_dir;
  bool check_only = false;
  app.add_option("--config", config,
                 "configuration file instead of /etc/carma/carma.toml and the user's own");
  app.add_option("--socket", socket, "Unix socket to listen on (daemon.socket)");
  app.add_option("--state-dir", state_dir, "folder of the durable state (daemon.state_dir)");
  app.add_flag("--check-config", check_only, "read and check the configuration, then exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }

  // Looked for anew each time: files in carma.d come and go.
  const auto sources = [=] {
    carma::config::Sources found = carma::config::StandardSources(
        config.empty() ? std::nullopt : std::optional(config), ::getuid() == 0);
    if (!socket.empty()) found.overrides.emplace_back("daemon.socket", socket);
    if (!state_dir.empty()) found.overrides.emplace_back("daemon.state_dir", state_dir);
    return found;
  };
  const carma::base::Result<carma::config::Loaded> loaded = carma::config::Load(sources());
  if (!loaded) return Refuse(loaded.error(), 2);
  if (check_only) {
    std::puts("configuration is valid");
    return 0;
  }
  carma::base::SetLogLevel(loaded->settings.log_level);
  auto daemon = carma::daemon::Daemon::Make(
      {*loaded, sources, carma::base::ExecutableDir() + "/carma-shim", CARMA_VERSION});
  if (!daemon) return Refuse(daemon.error(), 1);
  (*daemon)->Run();
  return 0;
}

}  // namespace

// What a library throws where we did not expect it (no descriptors, no memory) ends the daemon with
// one line; tasks go on, and the service manager starts the next one.
int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    return Refuse({carma::base::ErrorCode::kIo, error.what()}, 1);
  }
}
