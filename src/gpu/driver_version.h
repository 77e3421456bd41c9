// Checks whether the kernel's driver and the libraries on disk have the same version. After an
// upgrade of the packages they differ until the machine boots (or the modules are reloaded), and
// every CUDA program started in between fails.
#pragma once

#include <optional>
#include <string>

namespace carma::gpu {

struct InstalledDriver {
  std::optional<std::string> loaded;     // "550.54.15", the kernel module's version
  std::optional<std::string> installed;  // version of the library that a program would load now
  bool Differ() const { return loaded && installed && *loaded != *installed; }
};

// nvml_library: file name or path; a file name is searched in the usual folders. root: replaces
// "/". Unknown versions are empty. Reads a few small files.
InstalledDriver ReadInstalledDriver(const std::string& nvml_library, const std::string& root = "");

}  // namespace carma::gpu
