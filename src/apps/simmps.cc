// carma-simmps: a stand-in for nvidia-cuda-mps-control on a simulated GPU server
// (docs/inside/simgpu.md).
#include <CLI/CLI.hpp>

#include "lab/simgpu/mps_control.h"

int main(int argc, char** argv) {
  CLI::App app{
      "A simulated MPS control daemon (CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_LOG_DIRECTORY); without "
      "options: commands from stdin",
      "carma-simmps"};
  app.set_version_flag("-v,--version", CARMA_VERSION);
  bool background = false, foreground = false;
  app.add_flag("-d", background, "start the daemon in the background");
  app.add_flag("-f", foreground, "start the daemon in the foreground");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const carma::simgpu::MpsFolders folders = carma::simgpu::MpsFoldersFromEnvironment();
  return background || foreground ? carma::simgpu::StartMpsDaemon(folders, foreground)
                                  : carma::simgpu::RunMpsCommands(folders);
}
