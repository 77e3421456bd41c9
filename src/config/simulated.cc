// Finds a simulated server's programs and library.
#include "config/simulated.h"

#include <string_view>

#include "base/file.h"

namespace carma::config {

std::string SimulatedDriver(const std::string& program_folder) {
  constexpr std::string_view kName = "/libcarma-simgpu.so";
  const std::string parent = program_folder.substr(0, program_folder.rfind('/'));
  for (const std::string& folder : {parent + "/lib", parent + "/lib/carma"}) {
    if (std::string path = folder + std::string(kName); base::Exists(path)) return path;
  }
  return program_folder + std::string(kName);
}

std::vector<std::pair<std::string, std::string>> SimulatedServer(const std::string& program_folder,
                                                                 const std::string& state) {
  return {{"simulation.state", state},
          {"monitor.nvml_library", SimulatedDriver(program_folder)},
          {"monitor.kernel_log", ""},
          {"collocation.mps_control", program_folder + "/carma-simmps"}};
}

}  // namespace carma::config
