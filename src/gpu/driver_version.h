// Whether the driver in the kernel and its libraries on the disk are of one version. After an
// upgrade of the packages they are not until the machine boots (or the modules are loaded again),
// and every CUDA program that starts meanwhile fails.
#pragma once

#include <optional>
#include <string>

namespace carma::gpu {

struct InstalledDriver {
  std::optional<std::string> loaded;     // "550.54.15", of the kernel's module
  std::optional<std::string> installed;  // of the library that a program would load now
  bool Differ() const { return loaded && installed && *loaded != *installed; }
};

// nvml_library: as NvmlLibrary loads it; without a folder it is looked for in the usual ones. root:
// what stands for "/". What cannot be told is empty. Reads a few small files.
InstalledDriver ReadInstalledDriver(const std::string& nvml_library, const std::string& root = "");

}  // namespace carma::gpu
