// carma-simmps: a stand-in for nvidia-cuda-mps-control on a simulated GPU server
// (docs/inside/simgpu.md).
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <string>

#include "base/standard_streams.h"
#include "lab/simgpu/mps_control.h"

int main(int argc, char** argv) {
  carma::base::OpenStandardStreams();
  CLI::App app{
      "A simulated MPS control daemon (CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_LOG_DIRECTORY); without "
      "options, it reads commands from stdin",
      "carma-simmps"};
  app.set_version_flag("-v,--version", CARMA_VERSION);
  bool background = false, foreground = false;
  app.add_flag("-d", background, "start the daemon in the background");
  app.add_flag("-f", foreground, "start the daemon in the foreground");
  std::string protocol;
  app.add_option("-p,--protocol", protocol,
                 "protocol 2 or 3; the daemon's environment takes precedence")
      ->check(CLI::IsMember({"2", "3"}));
  bool quit = false;
  app.add_flag("-q,--quit", quit, "stop the daemon (protocol 3)");
  const carma::simgpu::MpsFolders folders = carma::simgpu::MpsFoldersFromEnvironment();
  carma::simgpu::MpsDaemonOptions options;
  const bool r590 = carma::simgpu::MpsBehaves(folders, "r590");
  if (r590 || carma::simgpu::MpsBehaves(folders, "r580"))
    app.add_flag("-M,--multiuser-server", options.multi_user,
                 "one server for the clients of all users");
  if (r590)
    app.add_flag("-S,--static-partitioning", options.partitions, "each client gets its own SMs");
  app.allow_extras();  // protocol 3: the command is given as arguments
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!protocol.empty()) ::setenv(carma::simgpu::kMpsProtocolVariable, protocol.c_str(), 0);
  if (background || foreground) return carma::simgpu::StartMpsDaemon(folders, foreground, options);
  std::string command = quit ? "quit" : "";
  for (const std::string& word : app.remaining()) command += word + " ";
  return command.empty() ? carma::simgpu::RunMpsCommands(folders)
                         : carma::simgpu::RunMpsCommand(folders, command);
}
