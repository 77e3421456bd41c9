// What a daemon needs to run on simulated GPUs: programs and a library that are installed beside
// it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace carma::config {

// The simulated driver that belongs to programs in this folder: in lib beside it, in lib/carma
// (Debian's packages), or in the folder itself (a build).
std::string SimulatedDriver(const std::string& program_folder);
// Configuration (dotted name, value) of a daemon whose GPUs are those of the state file.
std::vector<std::pair<std::string, std::string>> SimulatedServer(const std::string& program_folder,
                                                                 const std::string& state);

}  // namespace carma::config
