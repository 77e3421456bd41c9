// Finds the programs and the library that a daemon needs to run on simulated GPUs. They are all
// installed together with the daemon.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace carma::config {

// The path of the simulated driver for the programs in this folder. The driver is in ../lib, in
// ../lib/carma (Debian's packages), or in the folder itself (a build).
std::string SimulatedDriver(const std::string& program_folder);
// The configuration (dotted name, value) of a daemon that uses the simulated GPUs described by this
// state file.
std::vector<std::pair<std::string, std::string>> SimulatedServer(const std::string& program_folder,
                                                                 const std::string& state);

}  // namespace carma::config
